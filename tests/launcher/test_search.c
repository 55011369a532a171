/*
 * test_search.c - the search for the listener of a meeting, over real sockets: processes that hold the other ports of
 * the meeting cannot keep a process from the listener that knows the key.
 */
#include "launcher/cluster/address/search.h"

#include "base/clock.h"
#include "base/peer_link.h"
#include "launcher/cluster/supervisor_connect.h"
#include "tests/lib/test.h"

#include <netinet/in.h>

/* The listener is at the last port. It is slow to greet and soon closes a connection that does not answer: a search
 * that turns to it only after all others finds the connection closed. */
enum {
    OTHERS = MEETING_PORTS - 1,
    OTHER_HOLDS_MS = 100,
    GREETS_AFTER_MS = 50,
    CLOSES_AFTER_MS = 200,
    ANSWERS_AT_MOST = 3, /* of each other port, before the listener has its own */
    LIMIT_MS = 60000,
    NUMBER = 2,
    TRIES = 200,
};

/* One port and, at most, one connection to it. */
struct end {
    struct listener listener;
    int fd; /* -1: no process is connected */
    int64_t since_ms, answered_ms;
    bool has_greeted;
    struct auth_challenge challenge;
    struct auth_answer answer;
    size_t got; /* of it */
    int answers;
};

static struct end ends[MEETING_PORTS];
static unsigned char key[AUTH_BYTES], mark[AUTH_MARK_BYTES];

/* MEETING_PORTS free ports in a row. */
static unsigned
open_ports(void)
{
    struct error error;
    for (int try = 0; try < TRIES; ++try) {
        int opened = 0;
        (void)!listener_open(&ends[0].listener, 0, 16, &error);
        unsigned port = ends[0].listener.port;
        for (opened = 1; opened < MEETING_PORTS && port + (unsigned)opened <= UINT16_MAX; ++opened) {
            if (!listener_open(&ends[opened].listener, (uint16_t)(port + (unsigned)opened), 16, &error))
                break;
        }
        if (opened == MEETING_PORTS)
            return port;
        while (opened-- > 0)
            listener_close(&ends[opened].listener);
    }
    ck_abort_msg("there are no %d free ports in a row", MEETING_PORTS);
}

static void
hang_up(struct end *end)
{
    close(end->fd);
    end->fd = -1;
}

static void
take_call(struct end *end)
{
    int fd = accept4(end->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (end->fd >= 0)
        close(end->fd);
    end->fd = fd;
    end->since_ms = clock_now_ms();
    end->answered_ms = 0;
    end->has_greeted = false;
    end->got = 0;
}

static void
greet(struct end *end, const unsigned char *with)
{
    ck_assert(auth_challenge_make(&end->challenge, with));
    (void)!send(end->fd, &end->challenge, sizeof(end->challenge), MSG_NOSIGNAL);
    end->has_greeted = true;
}

/* Takes note of an answer; hangs up where the other end has. */
static void
hear_answer(struct end *end)
{
    switch (socket_receive(end->fd, &end->answer, sizeof(end->answer), &end->got)) {
    case LINK_LATE:
        return;
    case LINK_OPEN:
        end->answered_ms = clock_now_ms();
        end->got = 0;
        ++end->answers;
        return;
    default:
        hang_up(end);
    }
}

/* A greeting in the right form at once, and no proof, for as long as this process waits for one. */
static void
step_other(struct end *end)
{
    take_call(end);
    if (end->fd >= 0 && !end->has_greeted)
        greet(end, NULL);
    if (end->fd >= 0 && end->answered_ms == 0)
        hear_answer(end);
    if (end->fd >= 0 && end->answered_ms != 0 && clock_now_ms() - end->answered_ms > OTHER_HOLDS_MS)
        hang_up(end);
}

static void
step_listener(struct end *end)
{
    struct auth_welcome welcome;
    take_call(end);
    if (end->fd >= 0 && !end->has_greeted && clock_now_ms() - end->since_ms >= GREETS_AFTER_MS)
        greet(end, mark);
    if (end->fd < 0 || !end->has_greeted || end->answered_ms != 0)
        return;
    hear_answer(end);
    if (end->answered_ms != 0) {
        ck_assert(auth_welcome_make(key, &end->challenge, &end->answer, NUMBER + 1, &welcome));
        (void)!send(end->fd, &welcome, sizeof(welcome), MSG_NOSIGNAL);
    } else if (end->fd >= 0 && clock_now_ms() - end->since_ms > CLOSES_AFTER_MS)
        hang_up(end);
}

TEST_GROUP(search, .timeout_s = 100);

TEST(who_holds_all_other_ports_does_not_keep_the_listener_away)
{
    struct search *search;
    unsigned char session[AUTH_BYTES], own[AUTH_MARK_BYTES] = {1};
    struct pollfd polled[MEETING_PORTS];
    int64_t deadline_ms = clock_now_ms() + LIMIT_MS;
    enum search_answer answer = SEARCH_CONTINUES;
    unsigned port = open_ports(), found = 0;
    int fd = -1;
    ck_assert(auth_random(key, sizeof(key)));
    ck_assert(auth_random(mark, sizeof(mark)));
    for (int i = 0; i < MEETING_PORTS; ++i)
        ends[i].fd = -1;
    search = search_open("127.0.0.1", port, NUMBER);
    search_know(search, key, own);
    while (search_resolve(search) == PLACE_UNKNOWN)
        ck_assert_int_lt(clock_now_ms(), deadline_ms);
    while (answer == SEARCH_CONTINUES) {
        ck_assert_msg(clock_now_ms() < deadline_ms, "the listener is not found");
        for (int i = 0; i < OTHERS; ++i) {
            step_other(&ends[i]);
            ck_assert_msg(ends[i].answers <= ANSWERS_AT_MOST, "port %d of %d was answered %d times, the listener not",
                          i, MEETING_PORTS, ends[i].answers);
        }
        step_listener(&ends[OTHERS]);
        (void)search_resolve(search);
        answer = search_step(search, &fd, session, &found);
        search_poll(search, polled);
        poll(polled, MEETING_PORTS, 1);
    }
    ck_assert_int_eq(answer, SEARCH_FOUND);
    ck_assert_uint_eq(found, port + OTHERS);
    close(fd);
    search_close(search);
    for (int i = 0; i < MEETING_PORTS; ++i) {
        if (ends[i].fd >= 0)
            close(ends[i].fd);
        listener_close(&ends[i].listener);
    }
}
