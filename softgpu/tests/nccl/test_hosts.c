/*
 * test_hosts.c - how ranks of several hosts meet over TCP: past strangers who stall, guess, talk nonsense or pretend,
 * and with a clear end where it cannot be. The hosts are names (NCCL_HOSTID) on the loopback interface.
 */
#include "exchange_ranks.h"
#include "nccl/bootstrap_wire.h"
#include "nccl/collective.h"
#include "nccl/frame.h"
#include "nccl/remote.h"

#include "tests/lib/test.h"

#include <arpa/inet.h>

/* ---- joining, in threads of this process: rank r says that it is on host r ---- */

static void
use_host(const char *name)
{
    setenv("NCCL_HOSTID", name, 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
}

static ncclUniqueId
make_id(void)
{
    use_host("maker");
    return joiner_id();
}

static struct id_content
content_of(const ncclUniqueId *id)
{
    struct id_content content;
    memcpy(&content, id, sizeof(content));
    return content;
}

/* All joiners of a test are of host "rank"; who plays the others speaks by hand. */
static void
start_join(struct joiner *joiner, const ncclUniqueId *id, int rank, int rank_count)
{
    use_host("rank");
    joiner_start(joiner, id, rank, rank_count);
}

/* A rank of another host, by hand. */
struct hand {
    struct meeting meeting;
    struct bootstrap_wait wait;
    struct bootstrap_error error;
    int rank;
    struct ruling ruling;
};

static ncclResult_t
hand_report(struct hand *hand, enum report_kind kind, int rank_count)
{
    struct report report = {.kind = kind, .rank = hand->rank, .rank_count = rank_count};
    memset(report.host, 0xaa, sizeof(report.host));
    report.address = (struct net_address){.family = 4, .port = htons(1), .bytes = {127, 0, 0, 1}};
    return meeting_report(&hand->meeting, &report);
}

static void
hand_connect(struct hand *hand, const ncclUniqueId *id, int rank)
{
    struct id_content content = content_of(id);
    memset(hand, 0, sizeof(*hand));
    hand->wait = (struct bootstrap_wait)BOOTSTRAP_WAIT_INITIALIZER;
    hand->meeting = (struct meeting){.socket = -1, .wait = &hand->wait, .error = &hand->error};
    hand->rank = rank;
    ck_assert_msg(meeting_connect(&hand->meeting, &content.root, content.secret, AUTH_ROOT, rank,
                                  &hand->meeting.socket) == ncclSuccess,
                  "%s", hand->error.text);
}

/* Up to where rank 0 (a joiner) listens for this rank; its address. */
static struct net_address
hand_meet(struct hand *hand, const ncclUniqueId *id, int rank_count)
{
    hand_connect(hand, id, 1);
    ck_assert_int_eq(hand_report(hand, REPORT_HELLO, rank_count), ncclSuccess);
    ck_assert_int_eq(meeting_ruling(&hand->meeting, RULING_SPREAD, &hand->ruling), ncclSuccess);
    ck_assert_int_ne(hand->ruling.host_of[0], hand->ruling.host_of[1]);
    ck_assert_int_eq(hand_report(hand, REPORT_ADDRESS, rank_count), ncclSuccess);
    ck_assert_int_eq(meeting_ruling(&hand->meeting, RULING_ADDRESSES, &hand->ruling), ncclSuccess);
    return hand->ruling.addresses[0];
}

/* The rest: rank 0 has joined, and the connection with it is returned. */
static int
hand_join(struct hand *hand, const struct net_address *rank_0, const struct id_content *content, struct joiner *joiner)
{
    int link = -1;
    ck_assert_msg(meeting_connect(&hand->meeting, rank_0, content->secret, AUTH_PEER, 1, &link) == ncclSuccess, "%s",
                  hand->error.text);
    ck_assert_int_eq(hand_report(hand, REPORT_DONE, 2), ncclSuccess);
    ck_assert_int_eq(meeting_ruling(&hand->meeting, RULING_WELCOME, &hand->ruling), ncclSuccess);
    ck_assert_msg(joiner_end(joiner) == ncclSuccess, "%s", joiner->error.text);
    return link;
}

static int
connect_blocking(const struct net_address *address)
{
    int socket = net_connect(address);
    ck_assert_int_ge(socket, 0);
    struct pollfd connected = {.fd = socket, .events = POLLOUT};
    ck_assert_int_eq(poll(&connected, 1, 60000), 1);
    ck_assert_int_eq(net_connect_result(socket), 0);
    return socket;
}

static void
await_readable(int socket)
{
    struct pollfd readable = {.fd = socket, .events = POLLIN};
    ck_assert_int_eq(poll(&readable, 1, 60000), 1);
}

/* The join ended so, and says why. */
static void
expect_end(struct joiner *joiner, ncclResult_t result, const char *words)
{
    ck_assert_int_eq(joiner_end(joiner), result);
    ck_assert_msg(strstr(joiner->error.text, words) != NULL, "%s", joiner->error.text);
    exchange_release(&joiner->exchange);
}

enum { STALLING = 40, GUESSING = 20, CRYING = 20, CROWD = STALLING + GUESSING + CRYING };

/* Strangers at an address: they stall, guess the secret, or send bytes that are not of the stand-in's protocol. */
static void
crowd_in(const struct net_address *address, enum auth_purpose purpose, int sockets[CROWD])
{
    static const unsigned char guess[SECRET_BYTES] = "swordfish";
    unsigned seed = 11;
    for (int i = 0; i < CROWD; ++i) {
        int socket = sockets[i] = connect_blocking(address);
        if (i < STALLING)
            continue;
        struct auth_greeting greeting;
        await_readable(socket);
        ck_assert_int_eq(recv(socket, &greeting, sizeof(greeting), MSG_WAITALL), sizeof(greeting));
        unsigned char noise[300];
        for (size_t b = 0; b < sizeof(noise); ++b)
            noise[b] = (unsigned char)rand_r(&seed);
        struct auth_answer answer;
        ck_assert(auth_make_answer(&greeting, guess, purpose, 1, &answer));
        if (i < STALLING + GUESSING)
            ck_assert_int_eq(send(socket, &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
        else
            ck_assert_int_gt(send(socket, noise, 1 + (size_t)rand_r(&seed) % sizeof(noise), MSG_NOSIGNAL), 0);
    }
    for (int i = STALLING; i < STALLING + GUESSING; ++i) { /* shown the door without another word */
        char byte;
        await_readable(sockets[i]);
        ck_assert_int_le(recv(sockets[i], &byte, 1, 0), 0);
    }
}

static void
disperse(const int sockets[CROWD])
{
    for (int i = 0; i < CROWD; ++i)
        close(sockets[i]);
}

TEST_GROUP(hosts, .timeout_s = 100);

static struct joiner joiner;

TEST(strangers_disturb_neither_the_root_nor_a_rank)
{
    ncclUniqueId id = make_id();
    struct id_content content = content_of(&id);
    int at_root[CROWD], at_rank[CROWD];
    crowd_in(&content.root, AUTH_ROOT, at_root);
    struct hand hand;
    start_join(&joiner, &id, 0, 2);
    struct net_address rank_0 = hand_meet(&hand, &id, 2);
    crowd_in(&rank_0, AUTH_PEER, at_rank);
    int link = hand_join(&hand, &rank_0, &content, &joiner);
    disperse(at_root);
    disperse(at_rank);

    /* A rank that has shown the secret can still do no harm but to the communicator, which reports it. */
    const struct frame nonsense = {.kind = FRAME_STAGED, .offset = UINT32_MAX, .bytes = 16};
    ck_assert_int_eq(send(link, &nonsense, sizeof(nonsense), MSG_NOSIGNAL), sizeof(nonsense));
    float value = 1;
    struct collective what = exchange_sum(&value, 1);
    char text[SEGMENT_TEXT_BYTES] = "";
    collective_run(&joiner.exchange, &what);
    ck_assert_int_eq(exchange_error(&joiner.exchange, text, sizeof(text)), ncclRemoteError);
    ck_assert_msg(strstr(text, "rank 1 sends what no rank would"), "%s", text);
    segment_set_state(&joiner.exchange.segment, RANK_LEFT, NULL);
    exchange_release(&joiner.exchange);
    close(link);
    close(hand.meeting.socket);
}

/* ---- what comes wakes the one that waits for it: no wait below has an end of its own ---- */

enum { LARGE = 300 << 10, PROGRESS = PROGRESS_CONTRIBUTED, MANY = 200 };

/* What rank 1 sends in one of the cases, once rank 0 waits or, in some, before. */
struct sending {
    pthread_t thread;
    struct segment *segment;
    int link;
    int what; /* the case */
};

static void
send_bytes(int link, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        struct pollfd writable = {.fd = link, .events = POLLOUT};
        poll(&writable, 1, 1000);
        ssize_t sent = send(link, (const char *)bytes + done, count - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        ck_assert(sent > 0 || errno == EAGAIN);
        done += sent > 0 ? (size_t)sent : 0;
    }
}

static void
send_progress(int link, uint32_t value)
{
    const struct frame frame = {.kind = FRAME_PROGRESS, .which = PROGRESS, .value = value};
    send_bytes(link, &frame, sizeof(frame));
}

enum { MANY_AT_ONCE, IN_THE_THREAD, LARGE_CHUNK, PIECE, INTERRUPT, END, CASES };

static void *
send_main(void *argument)
{
    struct sending *sending = argument;
    static const unsigned char data[LARGE] = {[0] = 7, [LARGE - 1] = 9};
    const struct frame staged = {.kind = FRAME_STAGED, .which = STAGING_CONTRIBUTION, .bytes = LARGE};
    const struct frame piece = {.kind = FRAME_PIECE, .value = 60000, .bytes = 60000};
    struct frame many[MANY];
    while (atomic_load(remote_waiters(sending->segment->remote)) == 0)
        usleep(1000);
    switch (sending->what) {
    case MANY_AT_ONCE: /* after one that has been received; more than one call reads */
        send_progress(sending->link, 1);
        while (atomic_load(&sending->segment->slots[1]->progress[PROGRESS].value) == 0)
            usleep(1000);
        for (uint32_t i = 0; i < MANY; ++i)
            many[i] = (struct frame){.kind = FRAME_PROGRESS, .which = PROGRESS, .value = i + 2};
        send_bytes(sending->link, many, sizeof(many));
        break;
    case LARGE_CHUNK:
        send_bytes(sending->link, &staged, sizeof(staged));
        send_bytes(sending->link, data, LARGE);
        send_progress(sending->link, 1);
        break;
    case PIECE: /* nothing comes after it */
        send_bytes(sending->link, &piece, sizeof(piece));
        send_bytes(sending->link, data, 30000);
        usleep(10000);
        send_bytes(sending->link, data, 30000);
        break;
    case INTERRUPT:
        segment_interrupt(sending->segment);
        break;
    case END: /* in the middle of a chunk */
        send_bytes(sending->link, &staged, sizeof(staged));
        send_bytes(sending->link, data, 1000);
        shutdown(sending->link, SHUT_WR);
        break;
    default:
        send_progress(sending->link, 1);
    }
    return NULL;
}

static bool
is_there(const struct sending *sending)
{
    struct segment *segment = sending->segment;
    switch (sending->what) {
    case MANY_AT_ONCE:
        return atomic_load(&segment->slots[1]->progress[PROGRESS].value) > 1;
    case PIECE:
        return atomic_load(&segment->mirrors[1]->from.written) == 1;
    case INTERRUPT:
        return atomic_load(&segment->interrupted);
    case END:
        return remote_health(segment->remote, 1) == WAIT_PEER_ENDED;
    default:
        return atomic_load(&segment->slots[1]->progress[PROGRESS].value) > 0;
    }
}

LOOP_TEST(what_comes_wakes_the_operation_that_waits, 0, CASES)
{
    ncclUniqueId id = make_id();
    struct id_content content = content_of(&id);
    struct hand hand;
    start_join(&joiner, &id, 0, 2);
    struct net_address rank_0 = hand_meet(&hand, &id, 2);
    struct segment *segment = &joiner.exchange.segment;
    struct sending sending = {.segment = segment, .link = hand_join(&hand, &rank_0, &content, &joiner), .what = _i};
    ck_assert_int_eq(pthread_create(&sending.thread, NULL, send_main, &sending), 0);
    atomic_fetch_add(remote_waiters(segment->remote), 1);
    while (_i == IN_THE_THREAD && !is_there(&sending)) /* it wants to wait, but the other thread is first */
        usleep(1000);
    if (_i == IN_THE_THREAD)
        remote_wait(segment->remote, -1);
    while (!is_there(&sending))
        remote_wait(segment->remote, -1);
    atomic_fetch_sub(remote_waiters(segment->remote), 1);
    pthread_join(sending.thread, NULL);
    while (_i == MANY_AT_ONCE && atomic_load(&segment->slots[1]->progress[PROGRESS].value) <= MANY)
        /* it waits no more */
        usleep(1000);
    if (_i == LARGE_CHUNK) {
        const unsigned char *data = segment->slots[1]->staging[STAGING_CONTRIBUTION][0];
        ck_assert(data[0] == 7 && data[LARGE - 1] == 9);
    }
    segment_set_state(segment, RANK_LEFT, NULL);
    exchange_release(&joiner.exchange);
    close(sending.link);
    close(hand.meeting.socket);
}

/* Whichever rank goes away between two steps, the others get an error that names the rank, or that the meeting is
 * over, and never wait. */
LOOP_TEST(a_rank_that_goes_away_ends_the_meeting, 0, 3)
{
    ncclUniqueId id = make_id();
    struct hand hand;
    start_join(&joiner, &id, 0, 2);
    if (_i == 0) { /* before it has said where it is */
        hand_connect(&hand, &id, 1);
        ck_assert_int_eq(hand_report(&hand, REPORT_HELLO, 2), ncclSuccess);
        ck_assert_int_eq(meeting_ruling(&hand.meeting, RULING_SPREAD, &hand.ruling), ncclSuccess);
    } else { /* while rank 0 waits for its connection */
        hand_meet(&hand, &id, 2);
    }
    if (_i == 2) { /* saying why */
        struct report failed = {.kind = REPORT_FAILED, .result = ncclSystemError, .text = "rank 1: out of luck"};
        ck_assert_int_eq(meeting_report(&hand.meeting, &failed), ncclSuccess);
    }
    shutdown(hand.meeting.socket, SHUT_RDWR);
    close(hand.meeting.socket);
    expect_end(&joiner, _i == 2 ? ncclSystemError : ncclRemoteError,
               _i == 2 ? "rank 1: out of luck" : "rank 1 went away before all 2 ranks");
}

LOOP_TEST(a_wait_for_other_hosts_can_be_cancelled, 0, 2)
{
    ncclUniqueId id = make_id();
    struct hand hand = {.meeting.socket = -1};
    start_join(&joiner, &id, 0, 2);
    if (_i > 0)
        hand_meet(&hand, &id, 2);
    bootstrap_cancel(&joiner.wait);
    ck_assert_int_ne(joiner_end(&joiner), ncclSuccess);
    exchange_release(&joiner.exchange);
    if (hand.meeting.socket >= 0)
        close(hand.meeting.socket);
}

/* Another process listens where the id says, and rank 1 comes. */
static int
play_root(ncclUniqueId id)
{
    struct id_content content = content_of(&id);
    content.root.port = 0;
    int listener = net_listen(&content.root, 1);
    ck_assert_int_ge(listener, 0);
    memcpy(&id, &content, sizeof(content));
    start_join(&joiner, &id, 1, 2);
    await_readable(listener);
    int guest = accept(listener, NULL, NULL);
    close(listener);
    return guest;
}

TEST(a_wrong_secret_is_refused_by_both_sides)
{
    ncclUniqueId id = make_id(), wrong = id;
    wrong.internal[30] ^= 1; /* within the secret */
    start_join(&joiner, &wrong, 1, 2);
    expect_end(&joiner, ncclSystemError, "cannot meet the other ranks at 127.0.0.1:");

    int guest = play_root(id);
    char page[] = "HTTP/1.1 400 Bad Request";
    ck_assert_int_eq(send(guest, page, sizeof(page), MSG_NOSIGNAL), sizeof(page));
    expect_end(&joiner, ncclSystemError, "does not know the secret");
    ck_assert_int_le(recv(guest, page, 1, MSG_DONTWAIT), 0); /* the joiner has sent nothing */
    close(guest);
}

/* A root that knows the protocol but not the secret, and lets every rank in, gets one half of the secret only. */
TEST(an_impostor_is_found_out)
{
    struct door door;
    struct auth_reply reply;
    int guest = play_root(make_id());
    ck_assert_int_eq(door_greet(&door, guest, 0), DOOR_WAITS);
    ck_assert_int_eq(recv(guest, &door.answer, sizeof(door.answer), MSG_WAITALL), sizeof(door.answer));
    memcpy(reply.half, door.answer.half, sizeof(reply.half)); /* the best that it has: what it was sent */
    ck_assert_int_eq(send(guest, &reply, sizeof(reply), MSG_NOSIGNAL), sizeof(reply));
    expect_end(&joiner, ncclSystemError, "does not know the secret");
    char byte;
    ck_assert_int_le(recv(guest, &byte, 1, 0), 0);
    close(guest);
}
