/*
 * test_engine_link.c - the supervisor's sockets to its ranks: whatever the order in which they join, each gets its
 * place and its own socket to rank 0, from the same program of a script; what a full socket does not take comes when
 * there is room; strangers keep no rank from joining, and another user is none.
 *
 * One thread plays both ends. The supervisor steps only when its descriptor says that there is something to do.
 */
#include "launcher/start/engine_link.h"

#include "base/protocol.h"
#include "base/supervisor_link.h"

#include "tests/lib/test.h"

#include <sys/un.h>

enum { RANKS = 5, MANY = 256, LOCAL = 7, NOBODY = 65534 };

static char folder[] = "/tmp/test-engine-link-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static struct engine_link link_;
static int fds[MANY]; /* the ranks' ends */

/* Steps as long as there is something to do, which is not for ever. Returns whether a rank asked for the end. */
static bool
step(void)
{
    bool asked = false;
    struct pollfd polled = {.fd = link_.epoll, .events = POLLIN};
    for (int i = 0; poll(&polled, 1, 0) == 1; ++i) {
        ck_assert_int_lt(i, 10000);
        asked = engine_link_step(&link_) || asked;
    }
    return asked;
}

static void
open_link(int first, int count, int world_size)
{
    struct error error;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, SUPERVISOR_SOCKET_NAME);
    int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_msg(engine_link_open(&link_, folder_fd, folder, first, count, world_size, LOCAL, &error), "%s",
                  error.text);
    close(folder_fd);
    for (int i = 0; i < MANY; ++i)
        fds[i] = -1;
}

static void
close_link(void)
{
    engine_link_close(&link_);
    for (int i = 0; i < MANY; ++i) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    unlink(address.sun_path);
    rmdir(folder);
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
}

static int
call(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        step(); /* the queue of callers is full */
    return fd;
}

static void
say(int fd, struct supervisor_message message)
{
    ck_assert_int_eq(send(fd, &message, sizeof(message), MSG_NOSIGNAL), sizeof(message));
}

static void
say_join(int i, unsigned generation)
{
    say(fds[i], (struct supervisor_message){
                    .protocol = DDPRUN_PROTOCOL_VERSION, .kind = SUPERVISOR_JOIN, .rank = i, .generation = generation});
}

static void
say_join_anew(int i, unsigned generation)
{
    if (fds[i] >= 0)
        close(fds[i]);
    fds[i] = call();
    say_join(i, generation);
    step();
}

/* The next packet; its kind, 0 where none is there, -1 where the other end is closed. */
static int
hear(int fd, struct supervisor_message *message, int *given)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC);
    *given = -1;
    if (got <= 0)
        return got == 0 ? -1 : 0;
    if (packet.msg_controllen > 0)
        memcpy(given, CMSG_DATA(&control.head), sizeof(*given));
    return (int)message->kind;
}

static struct supervisor_message message;

static void
expect_place(int i)
{
    int given;
    ck_assert_int_eq(hear(fds[i], &message, &given), SUPERVISOR_PLACE);
    ck_assert_int_eq(given, -1);
    ck_assert_int_eq(message.rank, link_.first_rank + i);
    ck_assert_int_eq(message.world_size, link_.world_size);
    ck_assert_int_eq(message.local_rank, LOCAL + i);
}

static void
join(int i, unsigned generation)
{
    say_join_anew(i, generation);
    expect_place(i);
}

/* The socket that rank i is given, and to which rank. */
static int
expect_link(int i, int *to)
{
    int given;
    ck_assert_int_eq(hear(fds[i], &message, &given), SUPERVISOR_LINK);
    ck_assert_int_ge(given, 0);
    *to = message.rank;
    return given;
}

static void
expect_nothing(int fd)
{
    int given;
    ck_assert_int_eq(hear(fd, &message, &given), 0);
}

static bool
is_closed(int fd)
{
    int given;
    return hear(fd, &message, &given) == -1;
}

/* Rank 0's sockets to the others lead to theirs. */
static void
expect_pairs(int count)
{
    int own[MANY], to;
    for (int i = 1; i < count; ++i) {
        own[i] = expect_link(i, &to);
        ck_assert_int_eq(to, 0);
        ck_assert_int_eq(write(own[i], &i, sizeof(i)), sizeof(i));
    }
    for (int n = 1; n < count; ++n) {
        int root = expect_link(0, &to), number = 0;
        ck_assert_int_eq(read(root, &number, sizeof(number)), sizeof(number));
        ck_assert_int_eq(number, to);
        close(own[to]);
        ck_assert_int_eq(recv(root, &number, sizeof(number), MSG_DONTWAIT), 0); /* no other process keeps it open */
        close(root);
    }
}

TEST_GROUP(ranks, .timeout_s = 60, .teardown = close_link);

/* Each is first once. */
LOOP_TEST(ranks_join_in_any_order, 0, 2 * RANKS)
{
    open_link(0, RANKS, RANKS);
    for (int n = 0; n < RANKS; ++n) {
        int i = _i < RANKS ? (_i + n) % RANKS : (2 * RANKS + _i - n) % RANKS;
        join(i, 0);
        ck_assert(link_.slots[i].joined);
        ck_assert_uint_eq(link_.slots[i].joins, 1);
    }
    expect_pairs(RANKS);
}

TEST(all_at_once)
{
    open_link(0, MANY, MANY);
    for (int i = MANY - 1; i >= 0; --i)
        fds[i] = call();
    step();
    for (int i = 0; i < MANY; ++i)
        say_join(i, 0);
    step();
    for (int i = 0; i < MANY; ++i)
        expect_place(i);
    int root, to, count = 0;
    while (hear(fds[0], &message, &root) == SUPERVISOR_LINK) {
        ++count;
        close(root);
        step(); /* its socket does not hold them all at once */
    }
    ck_assert_int_eq(count, MANY - 1);
    for (int i = 1; i < MANY; ++i)
        close(expect_link(i, &to));
}

TEST(programs_of_a_script_meet_their_own)
{
    int to;
    open_link(0, 3, 3);
    for (int i = 0; i < 3; ++i)
        join(i, 0);
    expect_pairs(3);

    say(fds[1], (struct supervisor_message){.protocol = DDPRUN_PROTOCOL_VERSION, .kind = SUPERVISOR_BYE});
    step();
    ck_assert(!link_.slots[1].joined);
    join(1, 1); /* it is ahead of rank 0 */
    expect_nothing(fds[0]);
    join(0, 1);
    close(expect_link(0, &to));
    ck_assert_int_eq(to, 1);
    close(expect_link(1, &to));
    expect_nothing(fds[0]); /* rank 2's is of the program before */
    join(2, 1);
    close(expect_link(0, &to));
    ck_assert_int_eq(to, 2);
}

/* Rank 0 learns of it by the end of its socket. */
TEST(a_rank_that_has_gone)
{
    int to;
    char byte;
    open_link(0, 2, 2);
    join(1, 0);
    expect_nothing(fds[1]); /* no end of a pair waits for rank 0 */
    close(fds[1]);
    fds[1] = -1;
    step();
    ck_assert_int_eq(link_.slots[1].fd, -1);
    join(0, 0);
    int root = expect_link(0, &to);
    ck_assert_int_eq(recv(root, &byte, 1, MSG_DONTWAIT), 0);
    close(root);
}

TEST(a_rank_asks_for_the_end)
{
    open_link(0, 2, 2);
    join(0, 0);
    say(fds[0], (struct supervisor_message){.protocol = DDPRUN_PROTOCOL_VERSION, .kind = SUPERVISOR_ABORT});
    ck_assert(step());
    ck_assert(!step());
}

/* In a cluster the sockets come from elsewhere. */
TEST(one_rank_of_several)
{
    int pair[2], to;
    open_link(3, 1, 4);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert(!engine_link_give(&link_, 0, 0, pair[0], NULL));
    join(0, 0);
    expect_nothing(fds[0]);
    ck_assert(engine_link_give(&link_, 0, 0, pair[0], NULL));
    ck_assert_int_eq(fcntl(pair[0], F_GETFD), -1);
    close(pair[1]);
    close(expect_link(0, &to));
    ck_assert_int_eq(to, 0);
}

TEST(a_rank_is_refused)
{
    int given;
    open_link(0, 1, 2);
    join(0, 0);
    engine_link_refuse(&link_, 0, "the network is down");
    (void)engine_link_step(&link_);
    ck_assert_int_eq(hear(fds[0], &message, &given), SUPERVISOR_REFUSED);
    ck_assert_str_eq(message.text, "the network is down");
    expect_nothing(fds[0]);
}

/* A stopped rank's socket takes some messages, and then none. Returns how many. */
static int
fill(int i)
{
    int joins = 0;
    for (say_join_anew(i, 0); !link_.slots[i].place_unsent && joins < 10000; ++joins) {
        say_join(i, 0);
        step();
    }
    ck_assert_int_lt(joins, 10000);
    return joins;
}

/* The last pair that was made for it is no connection then. */
TEST(a_stopped_rank_is_killed)
{
    int root = -1, next;
    char byte;
    open_link(0, 2, 2);
    join(0, 0);
    fill(1);
    close(fds[1]);
    fds[1] = -1;
    for (step(); hear(fds[0], &message, &next) == SUPERVISOR_LINK; root = next) {
        if (root >= 0)
            close(root);
    }
    ck_assert_int_eq(recv(root, &byte, 1, MSG_DONTWAIT), 0);
    close(root);
}

TEST(a_full_socket_gets_the_rest_later)
{
    int given, places = 0;
    open_link(0, 1, 2);
    int joins = fill(0);
    engine_link_refuse(&link_, 0, "too late");
    (void)engine_link_step(&link_);
    ck_assert(!engine_link_give(&link_, 0, 1, 0, NULL));
    while (hear(fds[0], &message, &given) == SUPERVISOR_PLACE)
        ++places;
    ck_assert(!engine_link_give(&link_, 0, 1, 0, NULL)); /* not before its place */
    ck_assert_int_eq(places, joins);                     /* the last one is owed */
    step();
    expect_place(0);
    ck_assert_int_eq(hear(fds[0], &message, &given), SUPERVISOR_REFUSED);
    expect_nothing(fds[0]);
    ck_assert(!link_.slots[0].place_unsent && link_.slots[0].refusal == NULL);
}

TEST_GROUP(strangers, .timeout_s = 60, .teardown = close_link);

TEST(a_silent_stranger_is_not_waited_for)
{
    open_link(0, 2, 2);
    int stranger = call();
    step();
    for (int i = 0; i < 2; ++i)
        join(i, 0);
    expect_pairs(2);
    expect_nothing(stranger);
    close(stranger);
}

/* Also between a rank's connection and its JOIN. */
TEST(strangers_pile_up)
{
    static int strangers[MANY];
    int count = 0, closed = 0;
    open_link(0, 2, 2);
    for (; count < link_.stranger_count - 1; ++count)
        strangers[count] = call();
    fds[0] = call();
    step();
    strangers[count++] = call();
    say_join(0, 0);
    for (; count < MANY; ++count)
        strangers[count] = call();
    step();
    expect_place(0);
    join(1, 0);
    expect_pairs(2);
    for (int i = 0; i < count; ++i) {
        bool is_gone = is_closed(strangers[i]);
        ck_assert(is_gone || i >= count - link_.stranger_count - 1); /* the oldest went first */
        closed += is_gone;
        close(strangers[i]);
    }
    ck_assert_int_ge(closed, count - link_.stranger_count);
    step();
}

TEST(what_is_no_join_is_turned_away)
{
    const struct supervisor_message messages[] = {
        {.protocol = DDPRUN_PROTOCOL_VERSION + 1, .kind = SUPERVISOR_JOIN},
        {.protocol = DDPRUN_PROTOCOL_VERSION, .kind = SUPERVISOR_JOIN, .rank = -1},
        {.protocol = DDPRUN_PROTOCOL_VERSION, .kind = SUPERVISOR_JOIN, .rank = 2},
        {.protocol = DDPRUN_PROTOCOL_VERSION, .kind = SUPERVISOR_ABORT},
        {.protocol = DDPRUN_PROTOCOL_VERSION, .kind = 99},
    };
    open_link(0, 2, 2);
    join(0, 0);
    for (size_t i = 0; i <= sizeof(messages) / sizeof(messages[0]); ++i) {
        int fd = call();
        if (i < sizeof(messages) / sizeof(messages[0]))
            say(fd, messages[i]);
        else
            ck_assert_int_eq(send(fd, "short", 5, MSG_NOSIGNAL), 5);
        ck_assert(!step());
        ck_assert(is_closed(fd));
        close(fd);
    }
    ck_assert_uint_eq(link_.slots[0].joins, 1);
    ck_assert_uint_eq(link_.slots[1].joins, 0);
}

/* The folder keeps other users out (tests/comm, "strangers"); one who has got in is closed without being read. */
TEST(another_user_is_no_rank)
{
    int status;
    open_link(0, 1, 1);
    if (geteuid() != 0)
        return; /* there is no other user here */
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(chmod(address.sun_path, 0777), 0);
    pid_t other = fork();
    if (other == 0) {
        struct supervisor_message join = {.protocol = DDPRUN_PROTOCOL_VERSION, .kind = SUPERVISOR_JOIN};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        _exit(setuid(NOBODY) == 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                      send(fd, &join, sizeof(join), MSG_NOSIGNAL) == (ssize_t)sizeof(join)
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert_int_eq(status, 0);
    step();
    ck_assert(!link_.slots[0].joined);
    join(0, 0);
}
