/*
 * control_client.c - one rank of a test of the control plane, run as `ddprun -n N control_client MODE`.
 *
 * exchange: many rounds of messages of random sizes; every rank gets every rank's, unchanged, in the order of ranks.
 * places:   the last rank is somewhere else: every rank gets an error that names it.
 * leaves:   the last rank is gone: rank 0 gets an error.
 * strangers: before they join, the ranks connect to the supervisor by the hundred, and say nothing; then "exchange".
 */
#include "base/protocol.h"
#include "comm/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { ROUNDS = 300, BYTES_AT_MOST = 200000, TIMEOUT_S = 120, STRANGERS = 300 };

static int
fail(const char *what)
{
    fprintf(stderr, "control_client: %s\n", what);
    return 1;
}

/* What rank `rank` says in round `round`: every rank can work it out. */
static size_t
compose(int rank, int round, unsigned char *bytes)
{
    unsigned seed = (unsigned)(rank * 7919 + round * 104729 + 1);
    size_t count = (size_t)(rand_r(&seed) % (round % 50 == 0 ? BYTES_AT_MOST : 300));
    for (size_t i = 0; i < count; ++i)
        bytes[i] = (unsigned char)rand_r(&seed);
    return count;
}

static int
exchange(struct control *control)
{
    static unsigned char mine[BYTES_AT_MOST], theirs[BYTES_AT_MOST];
    for (int round = 0; round < ROUNDS; ++round) {
        char about[32];
        struct control_messages all;
        struct comm_error error;
        snprintf(about, sizeof(about), "round %d", round);
        size_t bytes = compose(control->rank, round, mine);
        if (!control_exchange(control, about, mine, bytes, &all, &error))
            return fail(error.text);
        if (all.count != control->world_size)
            return fail("a message for each rank is missing");
        for (int r = 0; r < all.count; ++r) {
            size_t expected = compose(r, round, theirs);
            if (all.bytes[r] != expected || memcmp(all.messages[r], theirs, expected) != 0)
                return fail("a message arrived changed");
        }
        control_free_messages(&all);
    }
    return 0;
}

static int
places(struct control *control)
{
    struct control_messages all;
    struct comm_error error = {""};
    bool last = control->rank == control->world_size - 1;
    if (control_exchange(control, last ? "the wrong place" : "the right place", "x", 1, &all, &error))
        return fail("different places were not noticed");
    if (strstr(error.text, "rank 0 is at the right place") == NULL || strstr(error.text, "at the wrong place") == NULL)
        return fail(error.text);
    return 0;
}

static int
leaves(struct control *control)
{
    struct control_messages all;
    struct comm_error error = {""};
    if (control->rank == control->world_size - 1) {
        control_close(control);
        return 0;
    }
    if (control_exchange(control, "a place", "x", 1, &all, &error))
        return fail("the rank that left was not missed");
    return strstr(error.text, "has left") != NULL ? 0 : fail(error.text);
}

/* At the end of the program those that are there hear of it, all of them alike. */
static int
last(struct control *control)
{
    struct control_messages all;
    struct comm_error error = {""};
    if (control->rank == control->world_size - 1) {
        control_close(control);
        return 0;
    }
    if (control_exchange_last(control, "the end", "x", 1, &all, &error))
        return fail("the rank that left was not missed");
    return error.cause == COMM_LEFT && strstr(error.text, "has left") != NULL ? 0 : fail(error.text);
}

/* A silent connection to the supervisor; -1: it is refused. */
static int
call_supervisor(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", getenv(DDPRUN_ENV_SUPERVISOR));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* More strangers than the supervisor keeps, which stay; and where this is root, another user, who does not get in. */
static bool
pile_up(int *strangers)
{
    enum { NOBODY = 65534 };
    int status = 0;
    for (int i = 0; i < STRANGERS; ++i) {
        strangers[i] = call_supervisor();
        if (strangers[i] < 0)
            return fail("a stranger of the same user cannot connect"), false;
    }
    pid_t other = geteuid() == 0 ? fork() : -1;
    if (other == 0)
        _exit(setuid(NOBODY) == 0 && call_supervisor() < 0 ? 0 : 1);
    if (other > 0 && (waitpid(other, &status, 0) != other || status != 0))
        return fail("another user can connect"), false;
    return true;
}

int
main(int argc, char **argv)
{
    static int strangers[STRANGERS];
    struct rendezvous rendezvous;
    struct control control;
    struct comm_error error;
    const char *index = getenv(DDPRUN_ENV_STATUS_INDEX);
    if (argc != 2 || index == NULL)
        return fail("usage: ddprun -n N control_client exchange|places|leaves|last|strangers");
    if (strcmp(argv[1], "strangers") == 0 && !pile_up(strangers))
        return 2;
    if (!rendezvous_open(&rendezvous, atoi(index), 0, TIMEOUT_S, &error) ||
        !control_open(&control, &rendezvous, TIMEOUT_S, &error))
        return fail(error.text);

    int status = 2;
    if (strcmp(argv[1], "exchange") == 0 || strcmp(argv[1], "strangers") == 0)
        status = exchange(&control);
    else if (strcmp(argv[1], "places") == 0)
        status = places(&control);
    else if (strcmp(argv[1], "leaves") == 0)
        status = leaves(&control);
    else if (strcmp(argv[1], "last") == 0)
        status = last(&control);
    control_close(&control);
    rendezvous_close(&rendezvous);
    if (status == 0 && rendezvous.rank == 0)
        printf("%s holds for %d ranks\n", argv[1], rendezvous.world_size);
    return status;
}
