/* Videos and images by FFmpeg's libraries, which are loaded when the first one is read. Their headers may be missing
 * where headroom is built: then so is this part, and it says so. What a header describes is the layout of one major
 * version alone; a library of another one is never called. See video.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/video_frames.h"

#if defined __has_include
#if __has_include(<libavformat/avformat.h>) && __has_include(<libavcodec/avcodec.h>) &&                               \
    __has_include(<libswscale/swscale.h>) && !defined HR_WITHOUT_LIBAV
#define HR_LIBAV
#endif
#endif

#ifndef HR_LIBAV

hr_status hr__video_libraries(hr_error *err) {
  return hr__fail(
      err, HR_UNSUPPORTED, NULL,
      "build it anew where FFmpeg's headers are (Debian: libavformat-dev libavcodec-dev libswscale-dev), or "
      "give frames as .npy",
      "this headroom was built without FFmpeg's headers and decodes neither videos nor images");
}

hr_status hr__video_decode(hr_video_frames *f, const char *path, bool image, double seconds, hr_error *err) {
  (void)f;
  (void)path;
  (void)image;
  (void)seconds;
  return hr__video_libraries(err);
}

#else

#include <dlfcn.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
#include <pthread.h>

/* The calls that are made, each with its library's header as its type. */
#define FORMAT_CALLS(X)                                                                                                \
  X(avformat_open_input) X(avformat_find_stream_info) X(avformat_close_input) X(av_find_best_stream) X(av_read_frame)
#define CODEC_CALLS(X)                                                                                                 \
  X(avcodec_alloc_context3)                                                                                            \
  X(avcodec_parameters_to_context)                                                                                     \
  X(avcodec_open2)                                                                                                     \
  X(avcodec_send_packet)                                                                                               \
  X(avcodec_receive_frame) X(avcodec_free_context) X(av_packet_alloc) X(av_packet_free) X(av_packet_unref)
#define UTIL_CALLS(X)  X(av_frame_alloc) X(av_frame_free) X(av_frame_unref) X(av_log_set_level) X(av_strerror)
#define SCALE_CALLS(X) X(sws_getCachedContext) X(sws_scale) X(sws_freeContext)

#define DECLARED(name) __typeof__(&(name)) name##_;
typedef struct calls {
  FORMAT_CALLS(DECLARED) CODEC_CALLS(DECLARED) UTIL_CALLS(DECLARED) SCALE_CALLS(DECLARED)
} calls;

/* Where each is found: what dlsym gives is copied as bytes, since C does not convert it to a function. */
typedef struct wanted_call {
  const char *name;
  size_t at;
} wanted_call;
#define FOUND(name)    {#name, offsetof(calls, name##_)},
static const wanted_call of_format[] = {FORMAT_CALLS(FOUND){NULL, 0}}, of_codec[] = {CODEC_CALLS(FOUND){NULL, 0}},
                         of_util[] = {UTIL_CALLS(FOUND){NULL, 0}}, of_scale[] = {SCALE_CALLS(FOUND){NULL, 0}};

typedef struct library {
  const char *name, *version; /* of its file, and the function that tells its version */
  unsigned built;             /* major version of the header */
  const wanted_call *calls;
} library;
static const library libraries[] = {
    {"libavutil", "avutil_version", LIBAVUTIL_VERSION_MAJOR, of_util},
    {"libavcodec", "avcodec_version", LIBAVCODEC_VERSION_MAJOR, of_codec},
    {"libavformat", "avformat_version", LIBAVFORMAT_VERSION_MAJOR, of_format},
    {"libswscale", "swscale_version", LIBSWSCALE_VERSION_MAJOR, of_scale},
};

static calls loaded;
static hr_error load_error;
static hr_status load_status;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

/* The library of the header's version, or else of any near it; NULL: there is none. It says itself which it is. */
static void *library_open(const library *l, unsigned *found) {
  enum { NEAR = 8 };
  void *handle = NULL;
  *found = 0;
  for (unsigned i = 0; i <= 2 * NEAR && !handle; i++) {
    unsigned major = i % 2 == 0 ? l->built + i / 2 : l->built - (i + 1) / 2;
    char name[64];
    snprintf(name, sizeof name, "%s.so.%u", l->name, major);
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!handle) return NULL;
  unsigned (*version)(void) = NULL;
  *(void **)&version = dlsym(handle, l->version);
  if (version) *found = version() >> 16;
  return handle;
}

static hr_status library_load(const library *l, hr_error *err) {
  unsigned found;
  void *handle = library_open(l, &found);
  HR_TRY(hr__video_library_check(l->name, l->built, found, err));
  for (const wanted_call *call = l->calls; call->name; call++) {
    void *function = dlsym(handle, call->name);
    if (!function)
      return hr__fail(err, HR_UNSUPPORTED, l->name, "install FFmpeg's libraries as the distribution has them",
                      "%s %u has no %s", l->name, found, call->name);
    memcpy((char *)&loaded + call->at, &function, sizeof function);
  }
  return HR_OK;
}

/* They stay loaded: FFmpeg's libraries keep state of their own. */
static void libraries_load(void) {
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries && load_status == HR_OK; i++)
    load_status = library_load(&libraries[i], &load_error);
  if (load_status == HR_OK) loaded.av_log_set_level_(AV_LOG_QUIET); /* what is wrong with a file is told by headroom */
}

hr_status hr__video_libraries(hr_error *err) {
  pthread_once(&load_once, libraries_load);
  if (load_status != HR_OK && err) *err = load_error;
  return load_status;
}

/* A file that is being decoded. */
typedef struct decoding {
  hr_video_frames *f;
  const char *path;
  bool image;
  double image_seconds;
  AVFormatContext *file;
  AVCodecContext *codec;
  AVPacket *packet;
  AVFrame *frame;
  struct SwsContext *scaler;
  int stream;
  double first, last; /* seconds of the file's clock: of the first frame and of the latest */
  bool begun;
  uint8_t *rgb; /* room for one frame */
  size_t rgb_bytes;
} decoding;

static hr_status refused(const decoding *d, int code, const char *what, hr_error *err) {
  char why[160] = "it has no video";
  if (code < 0 && code != AVERROR_STREAM_NOT_FOUND) loaded.av_strerror_(code, why, sizeof why);
  return hr__fail(err, code == AVERROR(ENOMEM) ? HR_NOMEM : HR_BAD_INPUT, d->path,
                  "look at it with a player; encode it anew, or leave it out", "%s: %s", what, why);
}

static hr_status file_open(decoding *d, hr_error *err) {
  const AVCodec *decoder = NULL;
  char url[4096];
  snprintf(url, sizeof url, "file:%s", d->path); /* whatever is in the name is no other protocol */
  int code = loaded.avformat_open_input_(&d->file, url, NULL, NULL);
  if (code < 0) return refused(d, code, "cannot be read as a video", err);
  code = loaded.avformat_find_stream_info_(d->file, NULL);
  if (code < 0) return refused(d, code, "cannot be read as a video", err);
  d->stream = loaded.av_find_best_stream_(d->file, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
  if (d->stream < 0) return refused(d, d->stream, "cannot be decoded", err);
  d->codec = loaded.avcodec_alloc_context3_(decoder);
  d->packet = loaded.av_packet_alloc_();
  d->frame = loaded.av_frame_alloc_();
  if (!d->codec || !d->packet || !d->frame) return hr__nomem(err);
  code = loaded.avcodec_parameters_to_context_(d->codec, d->file->streams[d->stream]->codecpar);
  if (code < 0) return refused(d, code, "cannot be decoded", err);
  d->codec->thread_count = 1; /* videos are read by several threads of headroom's own */
  code = loaded.avcodec_open2_(d->codec, decoder, NULL);
  return code < 0 ? refused(d, code, "cannot be decoded", err) : HR_OK;
}

/* Seconds since the first frame; without a time of its own a frame follows the one before it. */
static double frame_seconds(decoding *d) {
  const AVStream *stream = d->file->streams[d->stream];
  double rate = stream->avg_frame_rate.num > 0 && stream->avg_frame_rate.den > 0 ? av_q2d(stream->avg_frame_rate) : 25;
  double at = d->begun ? d->last + 1 / rate : 0;
  if (d->frame->best_effort_timestamp != AV_NOPTS_VALUE)
    at = (double)d->frame->best_effort_timestamp * av_q2d(stream->time_base);
  if (!d->begun) d->first = at;
  d->begun = true;
  d->last = at;
  return at - d->first;
}

/* What may be held for frames as large as this one: those that a decoder keeps, of an image this one, and it as RGB. */
static void held_note(const decoding *d) {
  enum { SMALL = 32 << 20, KEPT = 16 };
  uint64_t frame = 0;
  for (int i = 0; i < AV_NUM_DATA_POINTERS; i++)
    if (d->frame->buf[i]) frame += d->frame->buf[i]->size;
  uint64_t bytes = SMALL + (d->image ? 2 : KEPT) * frame + d->rgb_bytes;
  if (bytes > d->f->held) d->f->held = bytes;
}

static hr_status frame_convert(decoding *d, hr_picture_size *size, hr_error *err) {
  AVFrame *frame = d->frame;
  *size = (hr_picture_size){frame->height, frame->width};
  if (frame->width < 1 || frame->height < 1 || frame->width > HR_VIDEO_SIDE || frame->height > HR_VIDEO_SIDE)
    return hr__fail(err, HR_BAD_INPUT, d->path, "make it smaller",
                    "frames of %d x %d pixels; at most %d each way are read", frame->width, frame->height,
                    HR_VIDEO_SIDE);
  size_t bytes = (size_t)frame->width * (size_t)frame->height * 3;
  if (bytes > d->rgb_bytes) {
    uint8_t *room = hr__realloc(d->rgb, bytes);
    if (!room) return hr__nomem(err);
    d->rgb = room;
    d->rgb_bytes = bytes;
  }
  held_note(d);
  d->scaler = loaded.sws_getCachedContext_(d->scaler, frame->width, frame->height, (enum AVPixelFormat)frame->format,
                                           frame->width, frame->height, AV_PIX_FMT_RGB24,
                                           SWS_POINT | SWS_ACCURATE_RND | SWS_BITEXACT, NULL, NULL, NULL);
  if (!d->scaler) return hr__fail(err, HR_BAD_INPUT, d->path, "encode it anew", "its pixels cannot be made RGB");
  uint8_t *const to[4] = {d->rgb};
  const int stride[4] = {frame->width * 3};
  loaded.sws_scale_(d->scaler, (const uint8_t *const *)frame->data, frame->linesize, 0, frame->height, to, stride);
  return HR_OK;
}

static hr_status frame_take(decoding *d, hr_error *err) {
  hr_picture_size size;
  double seconds = d->image ? d->image_seconds : frame_seconds(d);
  if (!hr__frame_wanted(d->f, seconds)) return HR_OK;
  HR_TRY(frame_convert(d, &size, err));
  return hr__frame_take(d->f, seconds, d->rgb, size, err);
}

/* Frames that the decoder has ready, after a packet or (NULL) at the end. */
static hr_status packet_decode(decoding *d, const AVPacket *packet, hr_error *err) {
  int code = loaded.avcodec_send_packet_(d->codec, packet);
  if (code < 0 && code != AVERROR_EOF) return refused(d, code, "is damaged", err);
  while (!hr__frames_done(d->f)) {
    code = loaded.avcodec_receive_frame_(d->codec, d->frame);
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return HR_OK;
    if (code < 0) return refused(d, code, "is damaged", err);
    hr_status status = frame_take(d, err);
    loaded.av_frame_unref_(d->frame);
    HR_TRY(status);
    if (d->image) return HR_OK;
  }
  return HR_OK;
}

static hr_status file_decode(decoding *d, hr_error *err) {
  int64_t before = d->f->taken;
  HR_TRY(file_open(d, err));
  int code = 0;
  while (!hr__frames_done(d->f) && !(d->image && d->f->taken > before)) {
    code = loaded.av_read_frame_(d->file, d->packet);
    if (code < 0) break;
    hr_status status = d->packet->stream_index == d->stream ? packet_decode(d, d->packet, err) : HR_OK;
    loaded.av_packet_unref_(d->packet);
    HR_TRY(status);
  }
  if (code < 0 && code != AVERROR_EOF) return refused(d, code, "is damaged", err);
  if (code < 0) HR_TRY(packet_decode(d, NULL, err));
  if (d->image && d->f->taken == before) return refused(d, 0, "is no image", err);
  return HR_OK;
}

hr_status hr__video_decode(hr_video_frames *f, const char *path, bool image, double seconds, hr_error *err) {
  HR_TRY(hr__video_libraries(err));
  if (f->held < HR_VIDEO_DECODING) f->held = HR_VIDEO_DECODING;
  decoding d = {.f = f, .path = path, .image = image, .image_seconds = seconds};
  hr_status status = file_decode(&d, err);
  loaded.sws_freeContext_(d.scaler);
  loaded.av_frame_free_(&d.frame);
  loaded.av_packet_free_(&d.packet);
  loaded.avcodec_free_context_(&d.codec);
  loaded.avformat_close_input_(&d.file);
  hr__free(d.rgb);
  return status;
}

#endif
