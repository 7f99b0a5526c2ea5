/* Poisoning of dead slots (ASan builds only): a planted error of lifetime is found, a correct plan runs clean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "part_net.h"

#ifdef HR_ASAN

/* The slot of the first layer's result: alive at nodes 0 and 1. */
static hr_slot *middle_slot(net *n) {
  hr_id y = n->graph->nodes[0].out[0];
  return &n->plan->slots[n->plan->slot_of_buffer[n->graph->values[y].buffer]];
}

static void test_clean(void **state) {
  (void)state;
  net n;
  net_open(&n, HR_F32);
  hr_run *run = net_run(&n, (hr_run_options){0});
  hr_error err = {0};
  float loss;
  for (int i = 0; i < 3; i++) {
    net_fill(&n, run);
    assert_int_equal(hr__run_program(run, n.program, &err), HR_OK);
    assert_int_equal(hr__run_read(run, n.loss, 0, &loss, sizeof loss, &err), HR_OK);
  }
  hr__run_destroy(run);
  net_close(&n);
}

static void test_life_too_short(void **state) {
  (void)state;
  net n;
  net_open(&n, HR_F32);
  middle_slot(&n)->last = 0; /* read at node 1 */
  hr_run *run = net_run(&n, (hr_run_options){0});
  hr_error err = {0};
  net_fill(&n, run);
  assert_int_equal(hr__run_program(run, n.program, &err), HR_FAILURE);
  assert_string_equal(err.place, "node 1 (linear)");
  assert_non_null(strstr(err.message, "dead slot"));
  hr__run_destroy(run);
  net_close(&n);
}

static void test_birth_too_late(void **state) {
  (void)state;
  net n;
  net_open(&n, HR_F32);
  middle_slot(&n)->first = 1; /* written at node 0 */
  hr_run *run = net_run(&n, (hr_run_options){0});
  hr_error err = {0};
  net_fill(&n, run);
  assert_int_equal(hr__run_program(run, n.program, &err), HR_FAILURE);
  assert_string_equal(err.place, "node 0 (linear)");
  hr__run_destroy(run);
  net_close(&n);
}

/* A kernel that keeps an address and uses it after the slot's last node: ASan ends the process. */
static void late_writer(void) {
  net n;
  net_open(&n, HR_F32);
  hr_run *run = net_run(&n, (hr_run_options){0});
  hr_error err = {0};
  net_fill(&n, run);
  hr_id y = n.graph->nodes[0].out[0];
  volatile float *kept = hr__run_address(run, y);
  if (hr__run_program(run, n.program, &err) != HR_OK) _exit(3);
  *kept = 1; /* dead since node 1 */
  _exit(4);
}

static void test_late_write_is_reported(void **state) {
  (void)state;
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(fds[1], STDERR_FILENO);
    late_writer();
  }
  close(fds[1]);
  char text[1 << 14];
  size_t used = 0;
  for (ssize_t got; used + 1 < sizeof text && (got = read(fds[0], text + used, sizeof text - 1 - used)) > 0;)
    used += (size_t)got;
  text[used] = 0;
  close(fds[0]);
  int status;
  waitpid(child, &status, 0);
  assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 1);
  assert_non_null(strstr(text, "use-after-poison"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_late_write_is_reported), cmocka_unit_test(test_clean),
                                     cmocka_unit_test(test_life_too_short), cmocka_unit_test(test_birth_too_late)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  return 77;
} /* skipped: needs -DHR_ASAN=ON */

#endif
