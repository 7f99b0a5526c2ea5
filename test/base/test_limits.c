/* Limits of nested control groups, on trees of files as the kernel shows them: version 2, version 1, both at once, and
 * as a container sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "base/limits.h"

#define GIB ((uint64_t)1 << 30)
#define MIB ((uint64_t)1 << 20)

static char root[2048];

static void tree_remove(void) {
  char command[4096];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  assert_int_equal(system(command), 0);
}

/* A file of the tree, with the folders above it. */
static void put(const char *path, const char *text) {
  char whole[4096];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    mkdir(whole, 0755);
    *slash = '/';
  }
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void put_bytes(const char *path, uint64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%llu\n", (unsigned long long)bytes);
  put(path, text);
}

static int setup(void **state) {
  (void)state;
  snprintf(root, sizeof root, "%s/limits-%ld", HR_BINARY_DIR, (long)getpid());
  tree_remove();
  mkdir(root, 0755);
  put("/proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 6291456 kB\n"); /* 8 and 6 GiB */
  hr__system_root_set(root);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  hr__system_root_set("");
  tree_remove();
  return 0;
}

static void expect(uint64_t limit, uint64_t available) {
  assert_int_equal(hr__memory_limit_bytes(), limit);
  assert_int_equal(hr__memory_available_bytes(), available);
}

static const char mount_v2[] = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

static void test_machine_alone(void **state) {
  (void)state;
  expect(8 * GIB, 6 * GIB);
  assert_true(hr__cpu_count() >= 1);
}

static void test_v2_nested(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/a/b/c\n");
  put("/proc/self/mountinfo", mount_v2);
  put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  expect(8 * GIB, 6 * GIB);
  put_bytes("/sys/fs/cgroup/a/b/c/memory.max", 4 * GIB);
  put_bytes("/sys/fs/cgroup/a/b/c/memory.current", GIB);
  expect(4 * GIB, 3 * GIB);
  put_bytes("/sys/fs/cgroup/a/memory.max", 2 * GIB); /* two levels up: the least counts, whoever has it */
  put_bytes("/sys/fs/cgroup/a/memory.current", GIB + GIB / 2);
  expect(2 * GIB, GIB / 2);
  put("/sys/fs/cgroup/a/memory.stat", "anon 5\nfile 7\ninactive_file 1073741824\nactive_file 9\n");
  expect(2 * GIB, GIB + GIB / 2); /* pages of files that nobody uses make room */
  put_bytes("/sys/fs/cgroup/a/b/memory.max", 3 * GIB);
  put_bytes("/sys/fs/cgroup/a/b/memory.current", 3 * GIB - MIB);
  expect(2 * GIB, MIB); /* one group has the least limit, another has the least left */
  put_bytes("/sys/fs/cgroup/a/b/memory.high", GIB / 4);
  expect(GIB / 4, 0); /* above it the kernel holds a process back */
}

/* Swap of version 2 is a limit of its own: it neither adds to memory nor takes from it. */
static void test_v2_swap(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/proc/self/mountinfo", mount_v2);
  put_bytes("/sys/fs/cgroup/a/b/memory.max", 2 * GIB);
  put_bytes("/sys/fs/cgroup/a/b/memory.current", GIB);
  const char *const swap[] = {"max\n", "0\n", "1073741824\n"};
  for (int i = 0; i < 3; i++) {
    put("/sys/fs/cgroup/a/b/memory.swap.max", swap[i]);
    put("/sys/fs/cgroup/a/memory.swap.max", swap[2 - i]);
    expect(2 * GIB, GIB);
  }
}

/* A container is shown its own group as the root, or a part of the tree under another name. */
static void test_containers(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/\n"); /* with a namespace of its own */
  put("/proc/self/mountinfo",
      "1 2 0:3 / / rw - overlay overlay rw\n31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  put_bytes("/sys/fs/cgroup/memory.max", GIB);
  expect(GIB, GIB);
  put("/proc/self/cgroup", "0::/kube/pod7/main/worker\n"); /* the host's names, and the part below the pod mounted */
  put("/proc/self/mountinfo", "31 23 0:28 /kube/pod7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  expect(GIB, GIB);
  put_bytes("/sys/fs/cgroup/main/memory.max", GIB / 2);
  expect(GIB / 2, GIB / 2);
  put_bytes("/sys/fs/cgroup/main/worker/memory.max", GIB / 4);
  expect(GIB / 4, GIB / 4);
  put("/proc/self/cgroup", "0::/kube/pod8\n"); /* a mount that does not show the group: its root is what counts */
  expect(GIB, GIB);
  put("/proc/self/cgroup", "0::/../other\n");
  put("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  expect(GIB, GIB);
  put("/proc/self/cgroup", "0::/x\n"); /* of two mounts the one that shows more */
  put("/proc/self/mountinfo", "31 23 0:28 /x /only\\040x rw - cgroup2 cgroup2 rw\n"
                              "32 23 0:28 / /all rw - cgroup2 cgroup2 rw\n");
  put_bytes("/only x/memory.max", GIB);
  put_bytes("/all/x/memory.max", GIB);
  put_bytes("/all/memory.max", 3 * MIB);
  expect(3 * MIB, 3 * MIB);
  put("/proc/self/mountinfo", "31 23 0:28 /x /only\\040x rw - cgroup2 cgroup2 rw\n"); /* a name with a space */
  expect(GIB, GIB);
}

static const char groups_v1[] =
    "12:pids:/elsewhere\n4:cpu,cpuacct:/a/b\n3:memory:/a/b\n2:cpuset:/\n1:name=systemd:/z\n";
static const char mounts_v1[] = "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
                                "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

static void test_v1_nested(void **state) {
  (void)state;
  put("/proc/self/cgroup", groups_v1);
  put("/proc/self/mountinfo", mounts_v1);
  put_bytes("/sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712u); /* none */
  put_bytes("/sys/fs/cgroup/memory/memory.usage_in_bytes", 7 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", 4 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", GIB);
  expect(4 * GIB, 3 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", 2 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", GIB);
  put("/sys/fs/cgroup/memory/a/memory.stat", "cache 1\ninactive_file 3\ntotal_inactive_file 536870912\n");
  expect(2 * GIB, GIB + GIB / 2);
  /* A group above that cannot be seen is known by its effect. */
  put("/sys/fs/cgroup/memory/a/b/memory.stat",
      "cache 1\nhierarchical_memory_limit 1073741824\ntotal_inactive_file 0\n");
  expect(GIB, 0);
}

/* Memory and swap together: what is swapped out already takes from what can be had. */
static void test_v1_swap(void **state) {
  (void)state;
  put("/proc/self/cgroup", groups_v1);
  put("/proc/self/mountinfo", mounts_v1);
  put_bytes("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", 4 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", GIB);
  put_bytes("/sys/fs/cgroup/memory/a/b/memory.memsw.limit_in_bytes", 5 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/b/memory.memsw.usage_in_bytes", 3 * GIB);
  expect(4 * GIB, 2 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", 3 * GIB);
  put_bytes("/sys/fs/cgroup/memory/a/memory.memsw.usage_in_bytes", 2 * GIB + GIB / 2);
  expect(3 * GIB, GIB / 2);
}

/* Both versions at once, memory in the older one; and a system that tells no mounts. */
static void test_hybrid_and_silent(void **state) {
  (void)state;
  char groups[512], mounts[1024];
  snprintf(groups, sizeof groups, "%s0::/user.slice\n", groups_v1);
  snprintf(mounts, sizeof mounts, "%s41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", mounts_v1);
  put("/proc/self/cgroup", groups);
  put("/proc/self/mountinfo", mounts);
  put_bytes("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", GIB);
  expect(GIB, GIB);
  put_bytes("/sys/fs/cgroup/unified/user.slice/memory.max", GIB / 2);
  expect(GIB / 2, GIB / 2);
  put("/proc/self/mountinfo", "");
  expect(GIB, GIB); /* where they usually are */
  put("/proc/self/cgroup", "0::/user.slice\nnonsense\n::\n");
  put_bytes("/sys/fs/cgroup/user.slice/memory.max", GIB / 8);
  expect(GIB / 8, GIB / 8);
}

static void test_processors(void **state) {
  (void)state;
  int all = hr__cpu_count();
  put("/proc/self/cgroup", groups_v1);
  put("/proc/self/mountinfo", mounts_v1);
  put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  assert_int_equal(hr__cpu_count(), all);
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n"); /* half a processor, one level up */
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  assert_int_equal(hr__cpu_count(), 1);
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/proc/self/mountinfo", mount_v2);
  assert_int_equal(hr__cpu_count(), all);
  put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  assert_int_equal(hr__cpu_count(), all);
  put("/sys/fs/cgroup/a/cpu.max", "90000 100000\n");
  assert_int_equal(hr__cpu_count(), 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_machine_alone), TEST(test_v2_nested), TEST(test_v2_swap),           TEST(test_containers),
      TEST(test_v1_nested),     TEST(test_v1_swap),   TEST(test_hybrid_and_silent), TEST(test_processors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
