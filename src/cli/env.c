/* headroom env: everything a bug report needs, nothing that tells who the user is. With --keys: every setting a recipe
 * can have, as the table in docs/recipe.md. */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/line.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "dev/device.h"
#include "headroom.h"
#include "job/settings.h"

/* Versions by the libraries' own functions, looked up in the running program: what is loaded counts, not what it was
 * compiled with. */
static const char *text_version(void *function, char *out, size_t capacity) {
  const char *(*version)(void);
  memcpy(&version, &function, sizeof version);
  snprintf(out, capacity, "%s", version());
  return out;
}

static const char *openssl_version(void *function, char *out, size_t capacity) {
  const char *(*version)(int);
  memcpy(&version, &function, sizeof version);
  snprintf(out, capacity, "%s", version(0));
  return out;
}

static const char *xxhash_version(void *function, char *out, size_t capacity) {
  unsigned (*version)(void);
  memcpy(&version, &function, sizeof version);
  unsigned number = version();
  snprintf(out, capacity, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
  return out;
}

/* The name of the file a symbol comes from carries the version ("libdnnl.so.2.6"). */
static const char *file_version(void *function, char *out, size_t capacity) {
  Dl_info info;
  char real[PATH_MAX];
  bool found = dladdr(function, &info) != 0 && info.dli_fname != NULL && realpath(info.dli_fname, real) != NULL;
  const char *slash = found ? strrchr(real, '/') : NULL;
  snprintf(out, capacity, "%s", slash != NULL ? slash + 1 : "unknown");
  return out;
}

static const struct library {
  const char *name, *symbol;
  const char *(*version)(void *function, char *out, size_t capacity);
} libraries[] = {
    {"oneDNN", "dnnl_version", file_version},         {"libyaml", "yaml_get_version_string", text_version},
    {"jansson", "jansson_version_str", text_version}, {"xxhash", "XXH_versionNumber", xxhash_version},
    {"OpenSSL", "OpenSSL_version", openssl_version},  {"utf8proc", "utf8proc_version", text_version},
    {"PCRE2", "pcre2_compile_8", file_version},
};

static const char *const variables[] = {"XDG_CACHE_HOME",       "NO_COLOR",          "TERM",
                                        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH",
                                        "DNNL_MAX_CPU_ISA",     "DNNL_VERBOSE",      "OMP_NUM_THREADS",
                                        "MALLOC_ARENA_MAX",     "HEADROOM_THREADS"};

/* Adds a text to an object; where that fails the object is given up. NULL: out of memory. */
static json_t *text_add(json_t *object, const char *key, const char *text) {
  if (json_object_set_new(object, key, json_string(text)) == 0) return object;
  json_decref(object);
  return NULL;
}

static json_t *libraries_json(void) {
  json_t *all = json_object();
  for (size_t i = 0; all != NULL && i < sizeof libraries / sizeof libraries[0]; i++) {
    char version[128];
    void *symbol = dlsym(RTLD_DEFAULT, libraries[i].symbol);
    const char *text = symbol != NULL ? libraries[i].version(symbol, version, sizeof version) : "linked statically";
    all = text_add(all, libraries[i].name, text);
  }
  return all;
}

static json_t *variables_json(void) {
  json_t *all = json_object();
  for (size_t i = 0; all != NULL && i < sizeof variables / sizeof variables[0]; i++) {
    const char *value = getenv(variables[i]);
    char clean[256];
    if (value == NULL) continue;
    hr__text_escape(value, strlen(value), clean, sizeof clean);
    all = text_add(all, variables[i], clean);
  }
  return all;
}

static json_t *cuda_json(void) {
  hr_device *device = NULL;
  hr_error why = {0};
  if (hr__cuda_open(&device, &why) != HR_OK) return json_sprintf("none: %s", why.message);
  json_t *name = json_string(device->facts.name);
  hr__device_close(device);
  return name;
}

static json_t *environment_json(void) {
  struct utsname system;
  if (uname(&system) != 0) memset(&system, 0, sizeof system);
  hr_facts facts;
  hr__cpu_facts(&facts);
#ifdef __clang__
  const char *compiler = "clang " __clang_version__;
#else
  const char *compiler = "gcc " __VERSION__;
#endif
  return json_pack("{s:s, s:s, s:o, s:{s:s, s:s, s:s}, s:{s:s, s:i, s:I}, s:o, s:o}", "version", HR_VERSION, "compiler",
                   compiler, "libraries", libraries_json(), "system", "name", system.sysname, "release", system.release,
                   "machine", system.machine, "cpu", "name", facts.name, "threads", facts.threads, "memory_bytes",
                   (json_int_t)facts.memory_bytes, "cuda", cuda_json(), "variables", variables_json());
}

static void object_print(const char *prefix, json_t *object) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    char name[64], size[HR_SIZE_TEXT];
    snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
    if (json_is_object(value))
      object_print(name, value);
    else if (json_is_integer(value) && strstr(key, "bytes") != NULL)
      printf("%-32s %s\n", name, hr__size_text((uint64_t)json_integer_value(value), size));
    else if (json_is_integer(value))
      printf("%-32s %" JSON_INTEGER_FORMAT "\n", name, json_integer_value(value));
    else {
      printf("%-32s ", name);
      hr__cli_wrap(stdout, json_string_value(value), 33, 33);
      fputc('\n', stdout);
    }
  }
}

static const char *type_name(const hr_key *key) {
  switch (key->type) {
  case HR_KEY_INT:
    return "whole number";
  case HR_KEY_FLOAT:
    return "number";
  case HR_KEY_BOOL:
    return "true or false";
  case HR_KEY_TEXT:
    return "text";
  case HR_KEY_CHOICE:
    return "choice";
  case HR_KEY_SIZE:
    return "size";
  case HR_KEY_FLOATS:
    return "numbers";
  case HR_KEY_PATH:
    return "path";
  case HR_KEY_PATHS:
    return "paths";
  case HR_KEY_TEXTS:
    return "names";
  case HR_KEY_TREE:
    return key->example && *key->example == '[' ? "list" : "section";
  }
  return "";
}

/* "a|b|c" would end a table cell. */
static void choices_print(const char *choices) {
  for (const char *c = choices; *c != '\0'; c++) {
    if (*c == '|')
      fputs("`, `", stdout);
    else
      fputc(*c, stdout);
  }
}

static void keys_print(const hr_key_table *all) {
  printf("| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
  for (size_t k = 0; k < all->count; k++) {
    const hr_key *key = &all->keys[k];
    printf("| `%s` | ", key->path);
    if (key->type == HR_KEY_CHOICE) {
      fputc('`', stdout);
      choices_print(key->choices);
      fputc('`', stdout);
    } else {
      printf("%s", type_name(key));
    }
    if (key->tree) fputs(" or section", stdout);
    if (key->fallback != NULL)
      printf(" | `%s` | ", key->fallback);
    else
      printf(" | %s | ", key->required ? "required" : "none");
    printf("%s |\n", key->meaning != NULL ? key->meaning : "");
  }
}

/* The same for a person at a terminal: a table would be wider than any. */
static void keys_list(const hr_cli *cli, const hr_key_table *all) {
  hr_style style = hr__cli_style(cli, stdout);
  size_t columns = (size_t)hr__terminal_columns(stdout);
  for (size_t k = 0; k < all->count; k++) {
    const hr_key *key = &all->keys[k];
    char kind[256];
    size_t used = 0;
    for (const char *c = key->type == HR_KEY_CHOICE ? key->choices : type_name(key); *c && used < sizeof kind - 3;
         c++) {
      kind[used++] = *c == '|' ? ',' : *c;
      if (*c == '|') kind[used++] = ' ';
    }
    snprintf(kind + used, sizeof kind - used, "%s%s%s%s", key->tree ? " or section" : "",
             key->fallback ? "; default " : "", key->fallback ? key->fallback : "", key->required ? "; required" : "");
    printf("%s%s%s  ", style.bold, key->path, style.end);
    hr__text_wrap(kind, strlen(key->path) + 2, 4, columns, stdout);
    printf("\n    ");
    hr__text_wrap(key->meaning != NULL ? key->meaning : "", 4, 4, columns, stdout);
    fputc('\n', stdout);
  }
}

/* Number of the section that a key is of; `count`: of none. */
static size_t section_of(const hr_key *key, const char *const *sections, size_t count) {
  size_t s = 0, length = strcspn(key->path, ".");
  while (s < count && !(strlen(sections[s]) == length && strncmp(key->path, sections[s], length) == 0))
    s++;
  return s;
}

/* Keys of one section together, whichever stages they belong to: in the order in which recipes have the sections, and
 * keys of none behind them. */
static hr_status keys_group(hr_cli *cli, hr_key_table *all, hr_error *err) {
  static const char *const sections[] = {"model", "data", "training", "memory"};
  enum { SECTIONS = sizeof sections / sizeof *sections };
  hr_key *grouped = hr__arena_array(&cli->arena, all->count, sizeof *grouped);
  if (!grouped) return hr__nomem(err);
  size_t count = 0;
  for (size_t s = 0; s <= SECTIONS; s++)
    for (size_t k = 0; k < all->count; k++)
      if (section_of(&all->keys[k], sections, SECTIONS) == s) grouped[count++] = all->keys[k];
  all->keys = grouped;
  return HR_OK;
}

static hr_status env_run(hr_cli *cli, hr_error *err) {
  if (hr__cli_flag(cli, "keys")) {
    hr_key_table keys;
    HR_TRY(hr__settings_keys(&cli->arena, &keys, err));
    HR_TRY(keys_group(cli, &keys, err));
    if (!cli->quiet && isatty(STDOUT_FILENO))
      keys_list(cli, &keys);
    else if (!cli->quiet)
      keys_print(&keys);
    return hr__cli_flush(err);
  }
  json_t *all = environment_json();
  if (all == NULL) return hr__nomem(err);
  if (cli->json) return hr__cli_put_json(all, err);
  if (!cli->quiet) object_print("", all);
  json_decref(all);
  return hr__cli_flush(err);
}

static const hr_cli_option options[] = {
    {"keys", NULL, "every setting of a recipe; into a file, as a table"},
};

const hr_cli_command hr_cli_env = {
    .name = "env",
    .usage = "",
    .summary = "facts for a bug report: versions, processor, memory, variables",
    .examples = "env\nenv --keys",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .max_arguments = 0,
    .run = env_run,
};
