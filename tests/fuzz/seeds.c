/*
 * seeds.c - what the fuzzer begins with where the format is ddprun's own: written by the functions that write it in
 * earnest, so that it is never of an older format. What people write has its beginnings in corpus/.
 */
#include "tests/fuzz/fuzz.h"

#include "base/flight.h"
#include "base/protocol.h"
#include "launcher/cluster/auth.h"
#include "launcher/cluster/handshake.h"
#include "launcher/cluster/peer_bytes.h"
#include "launcher/options/options.h"
#include "tools/check/format/reference.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/format/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 64 * 1024 };

static const char *seeds_folder;

static void
put(const char *target, const char *name, const void *bytes, size_t count)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", seeds_folder, target);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/%s", seeds_folder, target, name);
    FILE *file = fopen(path, "we");
    fuzz_require(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0, "a seed can be written");
}

/* Reads a file of the seeds' folder, and removes it. */
static size_t
take_file(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "re");
    fuzz_require(file != NULL, "what is written can be read");
    size_t count = fread(bytes, 1, room, file);
    fclose(file);
    unlink(path);
    return count;
}

static void
put_handshakes(void)
{
    static unsigned char bytes[HANDSHAKE_BYTES_AT_MOST];
    struct handshake handshake = {.pid = 4711, .host = "node7", .host_id = "boot 1", .port = 40123};
    struct options options = {.job = {.bucket_bytes = 10 << 20}, .timeout_s = 600};
    terms_write(&options, true, handshake.terms, sizeof(handshake.terms));
    handshake.addresses.count = 2;
    handshake.addresses.items[0] = (struct host_address){.family = 4, .bytes = {10, 1, 2, 3}};
    handshake.addresses.items[1] = (struct host_address){.family = 6, .bytes = {0xfd, [15] = 9}};
    put("handshake", "two_addresses", bytes, handshake_encode(&handshake, bytes));
    handshake.exit_code = 3;
    snprintf(handshake.error, sizeof(handshake.error), "there is no program");
    put("handshake", "problem", bytes, handshake_encode(&handshake, bytes));
    handshake.addresses.count = ADDRESSES_AT_MOST;
    for (int i = 0; i < ADDRESSES_AT_MOST; ++i)
        handshake.addresses.items[i].family = 4;
    put("handshake", "most_addresses", bytes, handshake_encode(&handshake, bytes));
}

static void
put_views(void)
{
    static unsigned char bytes[RANK_VIEW_BYTES_AT_MOST];
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 12, .connected = true};
    put("view", "training", bytes, rank_view_encode(&view, bytes));
    view.stage = RANK_STAGE_FAILED;
    view.ended = true;
    view.signal = 9;
    snprintf(view.failure, sizeof(view.failure), "gradient w cannot be averaged");
    put("view", "failed", bytes, rank_view_encode(&view, bytes));
}

/* A frame with these bytes behind what is there; returns the new end. */
static size_t
add_frame(unsigned char *to, size_t at, uint32_t kind, const void *bytes, uint32_t count)
{
    const uint32_t header[FRAME_HEADER_BYTES / sizeof(uint32_t)] = {count, kind};
    memcpy(to + at, header, sizeof(header));
    if (count > 0)
        memcpy(to + at + sizeof(header), bytes, count);
    return at + sizeof(header) + count;
}

static void
put_frames(void)
{
    unsigned char bytes[4096], body[2048];
    const struct peer_order order = {.exit_code = 137, .signal = 15, .grace_ms = 2000, .text = "rank 3 was ended"};
    size_t end = add_frame(bytes, 0, FRAME_HEARTBEAT, NULL, 0);
    end = add_frame(bytes, end, FRAME_END, body, (uint32_t)peer_order_encode(&order, body, sizeof(body)));
    put("frames", "heartbeat_and_end", bytes, end);
    const uint32_t too_long[2] = {FRAME_BYTES_AT_MOST + 1, FRAME_VIEW};
    put("frames", "too_long", too_long, sizeof(too_long));
}

/* As a peer would begin that knows another secret. */
static void
put_auths(void)
{
    const unsigned char secret[AUTH_BYTES] = "another secret";
    struct {
        struct auth_challenge challenge;
        unsigned char welcome[AUTH_BYTES];
    } turn = {.welcome = {3}};
    struct auth_answer answer;
    fuzz_require(auth_challenge_make(&turn.challenge, NULL) &&
                     auth_answer_make(secret, &turn.challenge, PEER_ENGINE, 1, &answer),
                 "a challenge can be answered");
    put("auth", "answer", &answer, sizeof(answer));
    put("auth", "challenge_and_welcome", &turn, sizeof(turn));
    put("auth", "network", "10.1.0.0/16", 11);
}

/* A reference behind the byte that fuzz_reference() takes first: 0: as it is; others: its hashes are put right. */
static void
put_references(void)
{
    static unsigned char bytes[ROOM];
    char path[512];
    const struct reference_header header = {.steps = 3, .program = 7};
    const float values[] = {1, -2, 0.5f};
    struct reference_writer writer;
    snprintf(path, sizeof(path), "%s/a-reference", seeds_folder);
    bool ok = reference_create(path, &header, &writer);
    for (uint32_t kind = REFERENCE_TENSOR; kind <= REFERENCE_END && ok; ++kind) {
        const struct reference_key key = {.kind = kind, .role = kind % 2, .step = 3, .number = 8 - kind};
        ok = reference_put(&writer, &key, values, kind == REFERENCE_END ? 0 : sizeof(values));
    }
    fuzz_require(reference_close(&writer) && ok, "a reference can be written");
    size_t count = take_file(path, bytes + 1, sizeof(bytes) - 1);
    put("reference", "whole", bytes, 1 + count);
    put("reference", "cut", bytes, count / 2);
    bytes[0] = 1;
    put("reference", "hashes_of_headers", bytes, 1 + count);
    bytes[0] = 7;
    put("reference", "all_hashes", bytes, 1 + count);
}

/* ---- the status page, as fuzz_status() takes it ---- */

enum { SEEN_ENDED = 1, CHOICE_AT_END = 1, CHOICE_SUMMARY_LINES = 2, CHOICE = 7, PAGES_AT = 9 };

/* A rank's record and recorder, each in half of what the rank gets. */
static size_t
add_rank(unsigned char *to, size_t at, const struct rank_status *status)
{
    static _Alignas(4096) unsigned char page[RANK_STATUS_STRIDE];
    size_t half = sizeof(*status) + 8;
    memset(page, 0, sizeof(page));
    struct flight_ring *ring = flight_of((struct rank_status *)page);
    for (int i = 0; i < 5; ++i)
        flight_write(ring, (enum flight_kind)(FLIGHT_START + i), (uint64_t)i, (uint64_t)i, 100, "bucket");
    memcpy(to + at, status, sizeof(*status));
    memset(to + at + sizeof(*status), 0, 8);
    memcpy(to + at + half, ring, half);
    return at + 2 * half;
}

static void
put_status(void)
{
    static unsigned char bytes[ROOM];
    struct rank_status done = {.stage = RANK_STAGE_ENDED,
                               .step = 100,
                               .gradient_count = 6,
                               .gradient_bytes = 70000,
                               .bucket_count = 3,
                               .check_count = 4,
                               .checked_step = 100,
                               .timed_steps = 9,
                               .timed_ns = 1000,
                               .exposed_bound_ns = UINT64_MAX,
                               .warnings.all[1] = {.count = 2, .key = "forgotten_tensor"}};
    memset(done.warnings.all[1].text, 0xc3, sizeof(done.warnings.all[1].text)); /* without an end */
    bytes[0] = 1;                                                               /* two ranks */
    bytes[1] = bytes[2] = SEEN_ENDED;
    bytes[CHOICE] = CHOICE_AT_END | CHOICE_SUMMARY_LINES;
    put("status", "good", bytes, add_rank(bytes, add_rank(bytes, PAGES_AT, &done), &done));

    struct rank_status waiting = {.stage = RANK_STAGE_TRAINING, .waits = 1, .waits_ns = 5, .place = "DDP_MEAN"};
    waiting.calls[0].thread = 7;
    waiting.calls[0].entered_ns = 4;
    bytes[1] = bytes[2] = 0;
    put("status", "waiting", bytes, add_rank(bytes, add_rank(bytes, PAGES_AT, &done), &waiting));

    struct rank_status failed = {.stage = RANK_STAGE_FAILED};
    memset(failed.failure, 'f', sizeof(failed.failure)); /* without an end */
    failed.failure[3] = (char)0xff;
    bytes[CHOICE] = 0;
    put("status", "failed", bytes, add_rank(bytes, add_rank(bytes, PAGES_AT, &done), &failed));
}

/* A trainer of one kernel that adds to its memory, four steps of it, behind the byte that fuzz_scout() takes first. */
static void
put_scout(void)
{
    unsigned char bytes[ROOM];
    int fd = fuzz_file((const unsigned char *)"", 0);
    struct scout_writer writer;
    struct scout_range all = {0, 64};
    struct scout_segment segments[] = {{.hi = 64, .type = SCOUT_FLOAT32, .tested = 1, .modified = {&all, 1}},
                                       {.alloc = 1, .hi = 64, .type = SCOUT_FLOAT32, .tested = 1}};
    struct scout_dependence dependence = {.from = 1, .changed = {&all, 1}};
    struct scout_elementwise map = {.from = 1, .from_bytes = 4, .to_bytes = 4, .samples = 12};
    struct scout_argument arguments[] = {{.end = 64}, {.slot = 1, .alloc = 1, .end = 64}};
    struct scout_op copy = {.kind = SCOUT_COPY,
                            .name = SCOUT_NONE,
                            .site = SCOUT_NONE,
                            .to = {.alloc = 1},
                            .from = {.alloc = SCOUT_NONE},
                            .bytes = 64,
                            .rows = 1};
    struct scout_op launch = {.kind = SCOUT_LAUNCH, .site = SCOUT_NONE, .arguments = arguments, .argument_count = 2};
    struct scout_effect none = {.why = SCOUT_NONE, .hidden_write = SCOUT_NONE}, effect = none;
    effect.segments = segments;
    effect.segment_count = 2;
    effect.dependences = &dependence;
    effect.dependence_count = effect.elementwise_count = 1;
    effect.elementwise = &map;
    bool ok = scout_writer_open(&writer, NULL, fd) && scout_writer_put(&writer, SCOUT_NAME, "sgd");
    for (uint32_t i = 0; i < 2; ++i)
        ok = ok && scout_writer_put(&writer, SCOUT_ALLOC,
                                    &(struct scout_alloc){.bytes = 64, .ordinal = i, .site = SCOUT_NONE});
    for (int step = 0; step < 4; ++step)
        ok = ok && scout_writer_put(&writer, SCOUT_OP, &copy) && scout_writer_put(&writer, SCOUT_EFFECT, &none) &&
             scout_writer_put(&writer, SCOUT_OP, &launch) && scout_writer_put(&writer, SCOUT_EFFECT, &effect);
    bytes[0] = 0;
    ssize_t count = pread(fd, bytes + 1, sizeof(bytes) - 1, 0);
    fuzz_require(ok && count > 0 && scout_writer_close(&writer), "a log can be written");
    put("scout", "steps", bytes, (size_t)count + 1);
    bytes[0] = 1;
    put("scout", "checks_put_right", bytes, (size_t)count + 1);
}

/* Two ranks' turns of a backward pass and an update: as a plan, behind the byte that fuzz_plan() takes first; and as a
 * run file. */
static void
put_plans(void)
{
    static unsigned char bytes[ROOM];
    struct play_tensor tensors[] = {{.role = PLAY_PARAMETER, .type = 1, .bytes = 64, .hi = 64},
                                    {.role = PLAY_GRADIENT, .type = 1, .alloc = 1, .ordinal = 1, .bytes = 64, .hi = 64},
                                    {.role = PLAY_STAYS, .alloc = 2, .bytes = 256, .lo = 8, .hi = 16}};
    struct play_operation operations[] = {
        {.part = PLAY_BY_TURN, .name = "backward", .site_count = 2, .sites = {{1, {{0, 4711}}}, {1, {{0, 4713}}}}},
        {.part = PLAY_BY_LAST, .name = "update", .site_count = 1, .sites = {{1, {{0, 4712}}}}}};
    struct play_object object = {.path = "/train", .build_id = "00ff"};
    struct play play = {.plan = {.version = PLAY_VERSION,
                                 .data = PLAY_TRAINING,
                                 .tensor_count = 3,
                                 .operation_count = 2,
                                 .object_count = 1,
                                 .average_before = 1},
                        .tensors = tensors,
                        .operations = operations,
                        .objects = &object};
    struct json_object *plan =
        json_tokener_parse("{\"version\":1,\"found\":true,\"proof\":{\"turns\":{\"end\":\"passed\"}}}");
    json_object_object_add(plan, "turns", play_json_of(&play));
    play_json_seal(plan);
    int count = snprintf((char *)bytes + 1, sizeof(bytes) - 1, "%s",
                         json_object_to_json_string_ext(plan, JSON_C_TO_STRING_PLAIN));
    put("plan", "proved", bytes, (size_t)count + 1);
    put("plan", "cut", bytes, (size_t)count / 2);
    json_object_put(plan);
    char path[512];
    snprintf(path, sizeof(path), "%s/a-run", seeds_folder);
    play.plan.object_count = 0; /* the path of one is half of what inputs may have */
    fuzz_require(play_save(path, &play), "a run file can be written");
    put("play", "turns", bytes, take_file(path, bytes, sizeof(bytes)));
}

/* A step with a bucket and all else that a rank writes, on two ranks. */
static void
put_trace(void)
{
    static const char one[] =
        "{\"ddprun_trace\":1,\"job\":5,\"rank\":0,\"world\":2,\"host\":\"h\",\"at_ns\":1000,\"unix_ns\":2000}\n"
        "{\"plan\":1,\"group\":0,\"after_step\":0,\"at_ns\":1500,\"tensors\":[{\"name\":\"dw\",\"place\":\"t.c:1\","
        "\"type\":\"float32\",\"elements\":4,\"bytes\":16}],\"buckets\":[{\"bytes\":16,\"tensors\":[0]}]}\n"
        "{\"all_reduce_ns\":[[4096,5000],[16384,9000]]}\n{\"ready\":[-50],\"group\":0,\"after_step\":0}\n"
        "{\"exchange\":1,\"about\":\"the start\",\"begin_ns\":1100,\"end_ns\":1200}\n"
        "{\"step\":1,\"overlapped\":true,\"group\":0,\"boundary_ns\":900000,\"error_ns\":5,\"interval_us\":-300.5,"
        "\"backward_us\":-100,\"released_us\":9.5,\"entered_ns\":800000,\"left_ns\":880000,\"exposed_us\":9.0,"
        "\"buckets\":[{\"bucket\":0,\"early\":true,\"ready_us\":-50,\"begin_us\":-40.5,\"end_us\":9.0,\"bytes\":16,"
        "\"path\":\"in place\",\"type\":\"float32\"}]}\n"
        "{\"step\":9,\"overlapped\":true,\"group\":0,\"boundary_ns\":990000,\"error_ns\":5,\"interval_us\":-80.5,"
        "\"backward_us\":-70,\"released_us\":9.5,\"exposed_us\":9.0,\"check_bytes\":8,"
        "\"buckets\":[{\"bucket\":0,\"early\":true,\"ready_us\":-50,\"begin_us\":-40.5,\"end_us\":9.0,\"bytes\":16,"
        "\"path\":\"in place\",\"type\":\"float32\"}]}\n"
        "{\"step\":10,\"overlapped\":false,\"group\":0,\"control\":true,\"boundary_ns\":1090000,\"interval_us\":-80.5,"
        "\"released_us\":9.5,\"exposed_us\":9.0,\"buckets\":[]}\n"
        "{\"trial\":8,\"group\":0,\"after_step\":10,\"at_ns\":1100000,\"slowed_us\":2.5,\"overlapped_us\":90,"
        "\"apart_us\":80}\n{\"overlap\":false,\"group\":0,\"after_step\":9,\"at_ns\":1100000}\n"
        "{\"step\":2,\"overlapped\":true,\"group\":0,\"graph\":1,\"entered_ns\":990000,\"buckets\":[]}\n"
        "{\"mean\":\"loss\",\"place\":\"t.c:9\",\"after_step\":1,\"at_ns\":950000,\"value\":2.5}\n"
        "{\"mean\":\"</script><'\\\"\",\"place\":\"t.c:9\",\"after_step\":1,\"at_ns\":950000,\"value\":1e300}\n"
        "{\"end\":true,\"at_ns\":999000}\n"
        "{\"summary\":{\"steps\":2,\"steps_per_second\":0.0,\"exposed_ms\":-1,\"exit_code\":1,\"reason\":\"<a\"},"
        "\"settings\":{\"<b\":\"<c\"},\"program\":\"<d>\",\"arguments\":[\"<e\",null]}\n";
    static char both[2 * sizeof(one)];
    snprintf(both, sizeof(both), "%s%s", one, one);
    put("trace", "two_ranks", both, 2 * (sizeof(one) - 1));
}

void
fuzz_write_seeds(const char *folder)
{
    seeds_folder = folder;
    put_handshakes();
    put_views();
    put_frames();
    put_auths();
    put_references();
    put_scout();
    put_plans();
    put_trace();
    put_status();
}
