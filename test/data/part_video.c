/* See part_video.h. */
#include "part_video.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/keys.h"

hr_fields video_fields(void) {
  enum { B = VIDEO_BATCH, T = VIDEO_FRAMES, L = VIDEO_LENGTH };
  hr_fields out = {.count = 0};
  const hr_field all[] = {
      {.name = "frames", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 5, {B, T, VIDEO_HEIGHT, VIDEO_WIDTH, 3}}},
      {.name = "timestamps", .purpose = HR_FOR_VALUES, .desc = {HR_F32, 2, {B, T}}},
      {.name = "frame_lengths", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 1, {B}}},
      {.name = "triggers", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 2, {B, T}}},
      {.name = "frame_mask", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 2, {B, T}}},
      {.name = "pair_mask", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 2, {B, T}}},
      {.name = "tokens", .purpose = HR_FOR_TOKENS, .desc = {HR_I32, 2, {B, L}}, .bound = 256},
      {.name = "targets", .purpose = HR_FOR_TARGETS, .desc = {HR_I32, 2, {B, L}}},
      {.name = "caption_mask", .purpose = HR_FOR_VALUES, .desc = {HR_U8, 2, {B, L}}},
      {.name = "placement", .purpose = HR_FOR_VALUES, .desc = {HR_I32, 2, {B, L}}},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    hr__field_add(&out, all[i]);
  return out;
}

void video_places(video_batch *b, void *at[HR_FIELDS]) {
  void *const all[] = {b->frames,    b->timestamps, b->frame_lengths, b->triggers,     b->frame_mask,
                       b->pair_mask, b->tokens,     b->targets,       b->caption_mask, b->placement};
  memcpy(at, all, sizeof all);
}

hr_status video_open(video_data *o, const char *path, const char *const *settings, bool eval, hr_error *err) {
  hr_fields fields = video_fields();
  return video_open_fields(o, path, settings, eval, &fields, err);
}

hr_status video_open_fields(video_data *o, const char *path, const char *const *settings, bool eval,
                            const hr_fields *fields, hr_error *err) {
  static const char text[] = "data: { source: video, tokenizer: bytes, end_id: 0, sequence_length: 40, max_frames: 6,\n"
                             "        video: { fps: 2, height: 4, width: 5 } }\n";
  const hr_key_table tables[] = {hr_data_keys, hr_masking_keys, hr_video_keys};
  char place[4200] = "data.path=null";
  const char *set[9] = {place};
  size_t count = 1;
  *o = (video_data){0};
  if (path) snprintf(place, sizeof place, "data.path=%s", path);
  for (; settings && settings[count - 1]; count++) {
    assert_true(count < 9);
    set[count] = settings[count - 1];
  }
  HR_TRY(hr__recipe_parse("r.yaml", ".", text, sizeof text - 1, set, count, tables, 3, &o->recipe, err));
  int64_t bucket = VIDEO_LENGTH;
  hr_data_shape shape = {.seed = 3,
                         .eval = eval,
                         .batch = VIDEO_BATCH,
                         .buckets = &bucket,
                         .fields = fields,
                         .n_buckets = 1,
                         .counts = true,
                         .fillers = 1};
  return hr__data_open(o->recipe, &shape, &o->data, err);
}

void video_close(video_data *o) {
  hr__data_close(o->data);
  hr__recipe_destroy(o->recipe);
}

void video_fill(const video_data *o, uint64_t sample, bool eval, video_batch *b) {
  void *at[HR_FIELDS];
  hr_error err = {0};
  video_places(b, at);
  hr_micro micro = hr__data_micro(o->data, sample, eval);
  memset(b, 0xcd, sizeof *b);
  if (hr__data_fill(o->data, &micro, 0, VIDEO_BATCH, 0, at, &err) != HR_OK) fail_msg("%s: %s", err.place, err.message);
}

const char videos_captions[] =
    "[{\"video\": \"one.npy\", \"start_time\": 0.9, \"end_time\": 2.1, \"caption\": \"it rises\"},\n"
    " {\"video\": \"one.npy\", \"start_time\": 3.4, \"end_time\": 3.6, \"caption\": \"ends\"},\n"
    " {\"video\": \"two\", \"start_time\": 0, \"end_time\": 0, \"caption\": \"begins\"},\n"
    " {\"video\": \"two\", \"start_time\": 1.1, \"end_time\": 1.2, \"caption\": \"between\"}]\n";

static char folder[4096];

const char *videos_path(void) {
  return folder;
}

void videos_put(const char *file, const void *bytes, size_t count) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  file_put(path, bytes, count);
}

void videos_put_array(const char *file, const char *dict, size_t bytes, int first) {
  static unsigned char whole[1 << 14];
  size_t text = strlen(dict), begin = 10 + text;
  assert_true(begin + bytes <= sizeof whole);
  memcpy(whole, "\x93NUMPY\x01\x00", 8);
  whole[8] = (unsigned char)(text & 255);
  whole[9] = (unsigned char)(text >> 8);
  memcpy(whole + 10, dict, text);
  enum { FRAME = VIDEO_HEIGHT * VIDEO_WIDTH * 3 };
  for (size_t i = 0; i < bytes; i++)
    whole[begin + i] = (unsigned char)((size_t)first + i / FRAME * 10 + i % FRAME);
  videos_put(file, whole, begin + bytes);
}

void videos_remove(const char *file) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  if (unlink(path) != 0) assert_int_equal(rmdir(path), 0);
}

void videos_begin(void) {
  static const char dict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (8, 4, 5, 3), }\n";
  snprintf(folder, sizeof folder, "%s/videos-%ld", HR_BINARY_DIR, (long)getpid());
  mkdir(folder, 0700);
  videos_put("captions.json", videos_captions, strlen(videos_captions));
  videos_put_array("one.npy", dict, 8 * 60, 0);
  videos_put_array("two.npy", dict, 8 * 60, 100);
}

void videos_end(void) {
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') videos_remove(entry->d_name);
  if (dir) closedir(dir);
  assert_int_equal(rmdir(folder), 0);
}
