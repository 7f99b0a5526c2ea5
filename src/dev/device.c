/* What all devices share: names and closing. */
#include "dev/device.h"

const char *hr_tier_name(hr_tier tier) {
  static const char *const names[HR_TIER_COUNT] = {
      [HR_TIER_DEVICE] = "device", [HR_TIER_HOST] = "host", [HR_TIER_DISK] = "disk"};
  return (unsigned)tier < HR_TIER_COUNT ? names[tier] : "?";
}

const char *hr_device_kind_name(hr_device_kind kind) {
  static const char *const names[HR_DEVICE_KIND_COUNT] = {[HR_CPU] = "cpu", [HR_CUDA] = "cuda"};
  return (unsigned)kind < HR_DEVICE_KIND_COUNT ? names[kind] : "?";
}

void hr__device_close(hr_device *device) {
  if (!device) return;
  hr__pool_destroy(device->pool);
  device->functions->destroy(device);
}
