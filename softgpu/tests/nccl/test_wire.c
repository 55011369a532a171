/*
 * test_wire.c - what comes over a network from any sender: frames that do not fit are refused before they store
 * anything, whatever their bytes; a connection without the secret, or for another purpose, is refused.
 */
#include "nccl/auth.h"
#include "nccl/frame.h"

#include "tests/lib/test.h"

const char softgpu_library_name[] = "test";

/* ---- frames ---- */

enum { PAGE = 4096 };

/* A mirror between two pages that nothing may touch, so that a store outside of it ends the test. */
static struct mirror *
guarded_mirror(void)
{
    size_t bytes = (sizeof(struct mirror) + PAGE - 1) / PAGE * PAGE;
    unsigned char *memory = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(memory != MAP_FAILED);
    ck_assert_int_eq(mprotect(memory + PAGE, bytes, PROT_READ | PROT_WRITE), 0);
    struct mirror *mirror = (struct mirror *)(memory + PAGE + bytes - sizeof(struct mirror));
    atomic_store(&mirror->slot.state, RANK_JOINED);
    return mirror;
}

static void
free_mirror(struct mirror *mirror)
{
    size_t bytes = (sizeof(struct mirror) + PAGE - 1) / PAGE * PAGE;
    munmap((unsigned char *)mirror + sizeof(*mirror) - bytes - PAGE, bytes + 2 * PAGE);
}

/* Feeds bytes in pieces as a socket might hand them out; how many were taken before the reader refused. */
static size_t
feed(struct frame_reader *reader, struct mirror *mirror, const unsigned char *bytes, size_t count, unsigned *seed)
{
    bool arrived = false;
    for (size_t done = 0; done < count;) {
        size_t room, left = count - done;
        unsigned char *to = frame_room(reader, &room);
        ck_assert_uint_gt(room, 0);
        size_t got = room < left ? room : left;
        got = 1 + (size_t)rand_r(seed) % got;
        memcpy(to, bytes + done, got);
        done += got;
        if (!frame_arrived(reader, mirror, got, &arrived))
            return done;
    }
    return count;
}

TEST_GROUP(wire, .timeout_s = 100);

LOOP_TEST(random_bytes_store_nothing_outside, 0, 10)
{
    enum { BYTES = 4096, ROUNDS = 3000 };
    unsigned seed = 1 + (unsigned)_i;
    struct mirror *mirror = guarded_mirror();
    static unsigned char bytes[BYTES];
    for (int round = 0; round < ROUNDS; ++round) {
        struct frame_reader reader = {0};
        for (size_t i = 0; i < BYTES; ++i)
            bytes[i] = (unsigned char)rand_r(&seed);
        /* Often something like a frame: a kind there is, small numbers. */
        struct frame frame = {.kind = (uint32_t)rand_r(&seed) % 9,
                              .which = (uint32_t)rand_r(&seed) % 7,
                              .value = (uint64_t)rand_r(&seed) % 5,
                              .offset = rand_r(&seed) % 2 ? (uint32_t)rand_r(&seed) % (SEGMENT_CHUNK_BYTES + 9) : 0,
                              .bytes = (uint32_t)rand_r(&seed) % 3000};
        if (rand_r(&seed) % 8)
            memcpy(bytes, &frame, sizeof(frame));
        feed(&reader, mirror, bytes, BYTES, &seed);
    }
    free_mirror(mirror);
}

struct refusal {
    const char *what;
    struct frame frame;
};

static const struct refusal refusals[] = {
    {"no kind", {.kind = 0}},
    {"an unknown kind", {.kind = 8}},
    {"a counter that does not exist", {.kind = FRAME_PROGRESS, .which = PROGRESS_BELL}},
    {"progress that carries", {.kind = FRAME_PROGRESS, .bytes = 1}},
    {"progress beyond its word", {.kind = FRAME_PROGRESS, .value = (uint64_t)1 << 32}},
    {"a signature of another size", {.kind = FRAME_SIGNATURE, .bytes = sizeof(struct operation_signature) - 1}},
    {"no such staging", {.kind = FRAME_STAGED, .which = STAGING_COUNT, .bytes = 1}},
    {"no such stage", {.kind = FRAME_STAGED, .value = SEGMENT_STAGES, .bytes = 1}},
    {"staged behind the end", {.kind = FRAME_STAGED, .offset = SEGMENT_CHUNK_BYTES, .bytes = 1}},
    {"staged over the end", {.kind = FRAME_STAGED, .offset = 1, .bytes = SEGMENT_CHUNK_BYTES}},
    {"staged far behind", {.kind = FRAME_STAGED, .offset = UINT32_MAX, .bytes = 2}},
    {"staged without bytes", {.kind = FRAME_STAGED}},
    {"a piece too long", {.kind = FRAME_PIECE, .value = 1 << 20, .bytes = SEGMENT_CHANNEL_BYTES + 1}},
    {"a piece longer than its message", {.kind = FRAME_PIECE, .value = 9, .bytes = 10}},
    {"taken that carries", {.kind = FRAME_TAKEN, .bytes = 4}},
    {"an invalid state", {.kind = FRAME_STATE, .which = RANK_JOINED, .bytes = SEGMENT_TEXT_BYTES}},
    {"a short text", {.kind = FRAME_STATE, .which = RANK_FAILED, .bytes = SEGMENT_TEXT_BYTES - 1}},
    {"a long note", {.kind = FRAME_NOTE, .bytes = SEGMENT_NOTE_BYTES + 1}},
    {"an empty note", {.kind = FRAME_NOTE}},
};

TABLE_TEST(what_does_not_fit_is_refused_at_its_header, refusals)
{
    struct mirror *mirror = guarded_mirror();
    struct frame_reader reader = {0};
    unsigned seed = 7;
    unsigned char bytes[sizeof(struct frame) + 64] = {0};
    memcpy(bytes, &refusals[_i].frame, sizeof(struct frame));
    ck_assert_msg(feed(&reader, mirror, bytes, sizeof(bytes), &seed) == sizeof(struct frame), "%s: taken",
                  refusals[_i].what);
    free_mirror(mirror);
}

static void
feed_frame(struct mirror *mirror, struct frame_reader *reader, const struct frame *frame, unsigned char fill)
{
    static unsigned char bytes[sizeof(struct frame) + SEGMENT_CHUNK_BYTES];
    unsigned seed = 5;
    memcpy(bytes, frame, sizeof(*frame));
    memset(bytes + sizeof(*frame), fill, frame->bytes);
    size_t count = sizeof(*frame) + frame->bytes;
    ck_assert_uint_eq(feed(reader, mirror, bytes, count, &seed), count);
}

/* More pieces than there are buffers, and a second end, are refused; both would change what is being read. */
TEST(what_is_being_read_is_not_overwritten)
{
    struct mirror *mirror = guarded_mirror();
    struct frame_reader reader = {0};
    const struct frame piece = {.kind = FRAME_PIECE, .which = ncclInt8, .value = 300, .bytes = 100};
    unsigned seed = 3;
    feed_frame(mirror, &reader, &piece, 1);
    feed_frame(mirror, &reader, &piece, 2);
    ck_assert_uint_eq(atomic_load(&mirror->from.written), 2);
    ck_assert_uint_eq(mirror->from.data[1][99], 2);
    unsigned char third[sizeof(piece) + 100];
    memcpy(third, &piece, sizeof(piece));
    memset(third + sizeof(piece), 9, 100);
    ck_assert_uint_eq(feed(&reader, mirror, third, sizeof(third), &seed), sizeof(piece));
    ck_assert_uint_eq(mirror->from.data[0][0], 1);

    struct frame_reader other = {0};
    atomic_store(&mirror->from.taken, 1);
    feed_frame(mirror, &other, &piece, 3); /* the one that was taken makes room */
    ck_assert_uint_eq(mirror->from.data[0][0], 3);
    const struct frame state = {.kind = FRAME_STATE, .which = RANK_FAILED, .bytes = SEGMENT_TEXT_BYTES};
    feed_frame(mirror, &other, &state, 'x');
    ck_assert_uint_eq(atomic_load(&mirror->slot.state), RANK_FAILED);
    ck_assert_uint_eq(strlen(mirror->slot.text), SEGMENT_TEXT_BYTES - 1);
    unsigned char again[sizeof(state) + SEGMENT_TEXT_BYTES] = {0};
    memcpy(again, &state, sizeof(state));
    ck_assert_uint_eq(feed(&other, mirror, again, sizeof(again), &seed), sizeof(state));
    ck_assert_uint_eq((unsigned char)mirror->slot.text[0], 'x');
    free_mirror(mirror);
}

/* ---- the secret ---- */

static const unsigned char right[SECRET_BYTES] = "the secret of an id, made by it", wrong[SECRET_BYTES] = "another one";

struct visit {
    int host_end, guest_end;
    struct door door;
    struct auth_greeting greeting;
};

static struct visit
begin_visit(void)
{
    struct visit visit;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    visit.host_end = ends[0];
    visit.guest_end = ends[1];
    ck_assert_int_eq(door_greet(&visit.door, ends[0], 0), DOOR_WAITS);
    ck_assert_int_eq(read(ends[1], &visit.greeting, sizeof(visit.greeting)), sizeof(visit.greeting));
    return visit;
}

static void
end_visit(struct visit *visit)
{
    close(visit->host_end);
    close(visit->guest_end);
}

/* Sends an answer in two parts; what the door says, and to whom it opened. */
static enum door_state
answer_door(struct visit *visit, const struct auth_answer *answer, enum auth_purpose purpose, int *rank_p)
{
    ck_assert_int_eq(write(visit->guest_end, answer, 20), 20);
    ck_assert_int_eq(door_hear(&visit->door, right, purpose, rank_p), DOOR_WAITS);
    ck_assert_int_eq(door_hear(&visit->door, right, purpose, rank_p), DOOR_WAITS); /* there is nothing */
    ck_assert_int_eq(write(visit->guest_end, (const char *)answer + 20, sizeof(*answer) - 20), sizeof(*answer) - 20);
    return door_hear(&visit->door, right, purpose, rank_p);
}

TEST(who_knows_the_secret_is_let_in)
{
    struct visit visit = begin_visit();
    struct auth_answer answer;
    struct auth_reply reply;
    int rank = -1;
    ck_assert(auth_make_answer(&visit.greeting, right, AUTH_PEER, 5, &answer));
    ck_assert_int_eq(answer_door(&visit, &answer, AUTH_PEER, &rank), DOOR_OPEN);
    ck_assert_int_eq(rank, 5);
    ck_assert_int_eq(read(visit.guest_end, &reply, sizeof(reply)), sizeof(reply));
    ck_assert(auth_check_reply(&reply, right));
    ck_assert(!auth_check_reply(&reply, wrong));
    memcpy(reply.half, answer.half, sizeof(reply.half)); /* the guest's own half, sent back */
    ck_assert(!auth_check_reply(&reply, right));
    end_visit(&visit);
}

TEST(who_does_not_stays_outside)
{
    struct auth_answer good, answer;
    int rank = -1;
    for (int i = 0; i < 6; ++i) {
        struct visit visit = begin_visit();
        ck_assert(auth_make_answer(&visit.greeting, right, AUTH_PEER, 2, &good));
        answer = good;
        if (i == 0)
            ck_assert(auth_make_answer(&visit.greeting, wrong, AUTH_PEER, 2, &answer));
        else if (i == 1) /* for something else */
            ck_assert(auth_make_answer(&visit.greeting, right, AUTH_ROOT, 2, &answer));
        else if (i == 2)
            answer.half[SECRET_HALF_BYTES - 1] ^= 1;
        else if (i == 3)
            answer.magic[0] ^= 1;
        else if (i == 4)
            answer.byte_order = 0x04030201;
        else
            memset(&answer, 0, sizeof(answer));
        ck_assert_msg(answer_door(&visit, &answer, AUTH_PEER, &rank) == DOOR_SHUT, "case %d", i);
        ck_assert_int_eq(rank, -1);
        char byte;
        ck_assert_int_lt(read(visit.guest_end, &byte, 1), 0); /* the host's half stays with it */
        end_visit(&visit);
    }
}

TEST(who_goes_away_is_forgotten)
{
    struct visit visit = begin_visit();
    int rank;
    close(visit.guest_end);
    ck_assert_int_eq(door_hear(&visit.door, right, AUTH_PEER, &rank), DOOR_SHUT);
    close(visit.host_end);
    struct auth_greeting garbage;
    struct auth_answer answer;
    memset(&garbage, 'x', sizeof(garbage));
    ck_assert(!auth_make_answer(&garbage, right, AUTH_PEER, 0, &answer)); /* an invalid host gets nothing */
}
