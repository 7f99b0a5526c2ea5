/* See screen.h. */
#include "cli/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH};

bool hr__screen_possible(void) {
  const char *term = getenv("TERM");
  return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void hr__screen_size(size_t *rows, size_t *columns) {
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  *rows = known ? size.ws_row : 24;
  *columns = known ? size.ws_col : 80;
}

static void put(const char *text, size_t bytes) {
  for (ssize_t n; bytes > 0; text += n, bytes -= (size_t)n) {
    n = write(STDOUT_FILENO, text, bytes);
    if (n < 0 && errno != EINTR) return;
    if (n < 0) n = 0;
  }
}

static void put_text(const char *text) {
  put(text, strlen(text));
}

/* Another screen without a cursor, keys as they are typed. Control keys stay signals. */
static void terminal_take(hr_screen *s) {
  struct termios raw = s->before;
  raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  put_text("\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J");
  hr__page_fini(&s->shown);
}

static void terminal_give(const hr_screen *s) {
  put_text("\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
  tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
}

hr_status hr__screen_open(hr_screen *s, bool colors, hr_error *err) {
  *s = (hr_screen){.colors = colors, .signals = -1};
  if (tcgetattr(STDIN_FILENO, &s->before) != 0) return hr__fail_errno(err, "the terminal", "examine", errno);
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    sigaddset(&set, taken[i]);
  s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (s->signals < 0) return hr__fail_errno(err, "the terminal", "watch", errno);
  sigprocmask(SIG_BLOCK, &set, &s->mask_before);
  terminal_take(s);
  return HR_OK;
}

void hr__screen_close(hr_screen *s) {
  if (s->signals < 0) return;
  terminal_give(s);
  close(s->signals);
  s->signals = -1;
  sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
  hr__page_fini(&s->shown);
}

static const char *style_text(hr_page_style style) {
  static const char *const codes[] = {
      [HR_PAGE_PLAIN] = "",           [HR_PAGE_BOLD] = "\x1b[1m",  [HR_PAGE_DIM] = "\x1b[2m",
      [HR_PAGE_WARNING] = "\x1b[33m", [HR_PAGE_GOOD] = "\x1b[32m", [HR_PAGE_CHOSEN] = "\x1b[7m"};
  return codes[style];
}

static bool line_is_same(const hr_screen *s, const hr_page *page, size_t row) {
  if (row >= s->shown.count) return false;
  const hr_page_line *old = &s->shown.lines[row], *new = &page->lines[row];
  return old->style == new->style &&strcmp(old->text, new->text) == 0;
}

/* What is chosen has to be seen without colours too. */
static bool line_is_styled(const hr_screen *s, const hr_page_line *line) {
  return line->style == HR_PAGE_CHOSEN || (s->colors && line->style != HR_PAGE_PLAIN);
}

void hr__screen_draw(hr_screen *s, const hr_page *page) {
  if (s->shown.rows != page->rows || s->shown.columns != page->columns) {
    hr__page_fini(&s->shown);
    if (!hr__page_init(&s->shown, page->rows, page->columns)) s->shown = (hr_page){0};
    put_text("\x1b[H\x1b[2J");
  }
  put_text("\x1b[?7l"); /* no wrapping: the window may have become narrower meanwhile */
  for (size_t i = 0; i < page->rows; i++) {
    char line[HR_PAGE_LINE + 64];
    bool there = i < page->count, styled = there && line_is_styled(s, &page->lines[i]);
    if (there ? line_is_same(s, page, i) : i >= s->shown.count && s->shown.rows > 0) continue;
    int n =
        snprintf(line, sizeof line, "\x1b[%zu;1H\x1b[2K%s%s%s", i + 1, styled ? style_text(page->lines[i].style) : "",
                 there ? page->lines[i].text : "", styled ? "\x1b[0m" : "");
    put(line, (size_t)n);
  }
  put_text("\x1b[?7h");
  if (s->shown.rows == 0) return;
  memcpy(s->shown.lines, page->lines, page->count * sizeof *page->lines);
  s->shown.count = page->count;
}

/* One key of the bytes that have come. */
static int key_read(void) {
  static const struct {
    const char *bytes;
    int key;
  } sequences[] = {{"\x1b[A", HR_KEY_UP},    {"\x1b[B", HR_KEY_DOWN}, {"\x1b[C", HR_KEY_RIGHT}, {"\x1b[D", HR_KEY_LEFT},
                   {"\x1bOA", HR_KEY_UP},    {"\x1bOB", HR_KEY_DOWN}, {"\x1bOC", HR_KEY_RIGHT}, {"\x1bOD", HR_KEY_LEFT},
                   {"\x1b[H", HR_KEY_HOME},  {"\x1b[F", HR_KEY_END},  {"\x1b[1~", HR_KEY_HOME}, {"\x1b[4~", HR_KEY_END},
                   {"\x1b[5~", HR_KEY_HOME}, {"\x1b[6~", HR_KEY_END}};
  char bytes[8] = {0};
  if (read(STDIN_FILENO, bytes, 1) != 1) return 0;
  if (bytes[0] != '\x1b') return (unsigned char)bytes[0];
  size_t used = 1;
  while (used + 1 < sizeof bytes) { /* the rest of a sequence comes with its first byte, or soon after */
    struct pollfd more = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&more, 1, 20) != 1 || read(STDIN_FILENO, bytes + used, 1) != 1) break;
    char c = bytes[used++];
    if (used > 2 && (c == '~' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) break;
  }
  for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
    if (strcmp(bytes, sequences[i].bytes) == 0) return sequences[i].key;
  return used == 1 ? HR_KEY_ESCAPE : 0;
}

static void signals_read(hr_screen *s, hr_screen_event *event) {
  struct signalfd_siginfo info;
  while (read(s->signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGTSTP) { /* as if the terminal had never been taken, until somebody goes on */
      terminal_give(s);
      raise(SIGSTOP);
      terminal_take(s);
    } else if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP) {
      event->signal = (int)info.ssi_signo;
    } else {
      hr__page_fini(&s->shown); /* SIGCONT, SIGWINCH: all is drawn again */
    }
  }
}

hr_screen_event hr__screen_wait(hr_screen *s, double seconds) {
  hr_screen_event event = {0};
  struct pollfd both[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = s->signals, .events = POLLIN}};
  if (poll(both, 2, (int)(1000 * seconds)) <= 0) return event;
  if (both[1].revents) signals_read(s, &event);
  if (both[0].revents & POLLIN) event.key = key_read();
  event.gone = (both[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 && event.key == 0;
  return event;
}
