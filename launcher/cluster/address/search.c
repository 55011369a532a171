/*
 * search.c - see search.h. A supervisor_connect for each port until one is taken in.
 */
#include "launcher/cluster/address/search.h"

#include "base/clock.h"
#include "base/printable.h"
#include "launcher/cluster/supervisor_connect.h"
#include "launcher/common/xcalloc.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OTHER_PORTS_MS = 60, /* after which the next ports are tried, too */
    FIRST_RETRY_MS = 25,
    LAST_RETRY_MS = 1000,
    RESOLVE_MS = 2000,
    ANSWERING_MS = 1500, /* for which the others are not answered where one port has this process's answer, and may lead
                            to the same listener */
    RUN_BYTES = AUTH_MARK_BYTES / 2, /* of a mark: what all listeners of a run share */
};

/* One port. */
struct dial {
    struct handshake root; /* where, and by which key */
    struct supervisor_connect connection;
    bool is_open; /* `connection` has begun and not ended */
    int64_t next_ms;
    int tries;
    unsigned answers; /* of `connection`, as far as they were seen, the last one at: */
    int64_t answered_ms;
    uint64_t turn; /* the number of that answer among all of the search; 0: none yet */
};

/* What the resolver works on, in a thread of its own: it may outlive the search. */
struct lookup {
    struct gaicb request;
    struct addrinfo hints;
    char name[256];
};

struct search {
    const char *address;
    unsigned port;
    int number;
    unsigned char key[AUTH_BYTES], mark[AUTH_MARK_BYTES];
    struct lookup *lookup; /* NULL: none is under way */
    struct host_addresses addresses;
    enum search_place place;
    int64_t begun_ms, asked_ms; /* 0: not yet */
    struct dial dials[MEETING_PORTS];
    uint64_t turns; /* answers that were given */
    char reason[128];
    int other_version;
};

struct search *
search_open(const char *address, unsigned port, int number)
{
    struct search *search = xcalloc(1, sizeof(*search));
    *search = (struct search){.address = address, .port = port, .number = number, .reason = "no answer"};
    return search;
}

void
search_close(struct search *search)
{
    for (int i = 0; i < MEETING_PORTS; ++i) {
        if (search->dials[i].is_open)
            supervisor_connect_close(&search->dials[i].connection);
    }
    int answer = search->lookup != NULL ? gai_cancel(&search->lookup->request) : EAI_NOTCANCELED;
    if (answer == EAI_ALLDONE && search->lookup->request.ar_result != NULL)
        freeaddrinfo(search->lookup->request.ar_result);
    if (answer != EAI_NOTCANCELED) /* else it is the resolver's until the process ends */
        free(search->lookup);
    explicit_bzero(search, sizeof(*search));
    free(search);
}

void
search_know(struct search *search, const unsigned char key[AUTH_BYTES], const unsigned char mark[AUTH_MARK_BYTES])
{
    memcpy(search->key, key, AUTH_BYTES);
    memcpy(search->mark, mark, AUTH_MARK_BYTES);
}

/* ---- addresses ---- */

static void
begin_lookup(struct search *search)
{
    struct lookup *lookup = xcalloc(1, sizeof(*lookup));
    struct gaicb *list[1] = {&lookup->request};
    lookup->hints = (struct addrinfo){.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(lookup->name, sizeof(lookup->name), "%s", search->address);
    lookup->request = (struct gaicb){.ar_name = lookup->name, .ar_request = &lookup->hints};
    search->asked_ms = clock_now_ms();
    int answer = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    if (answer == 0) {
        search->lookup = lookup;
        return;
    }
    snprintf(search->reason, sizeof(search->reason), "%s", gai_strerror(answer));
    free(lookup);
}

static enum search_place
find_place(const struct host_addresses *addresses)
{
    struct host_addresses own = {0};
    struct error ignored;
    bool is_known = addresses_find(NULL, &own, &ignored);
    for (int i = 0; i < addresses->count; ++i) {
        if (addresses_is_loopback(&addresses->items[i]))
            return PLACE_LOOPBACK;
        for (int j = 0; is_known && j < own.count; ++j) {
            if (addresses_equal(&addresses->items[i], &own.items[j]))
                return PLACE_HERE;
        }
    }
    return addresses->count > 0 ? PLACE_ELSEWHERE : PLACE_UNKNOWN;
}

enum search_place
search_resolve(struct search *search)
{
    struct host_addresses *addresses = &search->addresses;
    if (search->lookup == NULL &&
        (search->asked_ms == 0 || (addresses->count == 0 && clock_now_ms() - search->asked_ms >= RESOLVE_MS)))
        begin_lookup(search);
    int answer = search->lookup != NULL ? gai_error(&search->lookup->request) : EAI_INPROGRESS;
    if (answer == EAI_INPROGRESS)
        return search->place;
    if (answer != 0)
        snprintf(search->reason, sizeof(search->reason), "%s", gai_strerror(answer));
    struct addrinfo *list = answer == 0 ? search->lookup->request.ar_result : NULL;
    for (const struct addrinfo *i = list; i != NULL && addresses->count < ADDRESSES_AT_MOST; i = i->ai_next)
        addresses->count += addresses_take(i->ai_addr, &addresses->items[addresses->count]);
    if (list != NULL)
        freeaddrinfo(list);
    free(search->lookup);
    search->lookup = NULL;
    search->place = find_place(addresses);
    return search->place;
}

void
search_describe_address(const struct search *search, char *text, size_t bytes)
{
    switch (search->place) {
    case PLACE_UNKNOWN:
        printable_append(text, bytes, " (%.200s is not known on this host: %s)", search->address, search->reason);
        break;
    case PLACE_ELSEWHERE:
        printable_append(text, bytes, " (%.200s is an address of another host)", search->address);
        break;
    case PLACE_LOOPBACK:
    case PLACE_HERE:
        break;
    }
}

/* ---- ports ---- */

static void
begin_dial(struct search *search, struct dial *dial)
{
    dial->root.port = (uint16_t)(search->port + (unsigned)(dial - search->dials));
    dial->root.addresses = search->addresses;
    memcpy(dial->root.secret, search->key, AUTH_BYTES);
    supervisor_connect_begin(&dial->connection, &dial->root, "of no host", NULL, PEER_SUPERVISOR, search->number);
    dial->is_open = true;
    dial->answers = 0;
}

/* The name may lead elsewhere by now: it is asked for again. A listener that closes while its answer is held back is
 * called again at once. */
static void
end_dial(struct search *search, struct dial *dial)
{
    int64_t now_ms = clock_now_ms(), wait_ms = FIRST_RETRY_MS << (dial->tries < 6 ? dial->tries : 6);
    bool is_other = dial->connection.state > CONNECT_ANSWERS;
    bool was_held = dial->connection.state == CONNECT_ANSWERS && dial->connection.is_held;
    dial->is_open = false;
    dial->tries += !was_held;
    if (was_held)
        wait_ms = FIRST_RETRY_MS;
    dial->next_ms = now_ms + (wait_ms < LAST_RETRY_MS ? wait_ms : LAST_RETRY_MS);
    if (dial == search->dials)
        snprintf(search->reason, sizeof(search->reason), "port %d: %s", dial->root.port,
                 is_other ? "of another job" : strerror(dial->connection.reason));
    if (dial == search->dials && search->lookup == NULL && now_ms - search->asked_ms >= RESOLVE_MS)
        search->addresses.count = 0;
}

static bool
awaits_welcome(const struct dial *dial)
{
    return dial->is_open && dial->connection.state == CONNECT_IS_WELCOMED;
}

/*
 * A process may pass the challenge of a listener on, at another port: this one is taken in once. Until a port has said
 * whether it takes this process in, others are called, so that their challenges are there, and are not answered.
 */
static void
hold_back(const struct search *search, struct dial *dial)
{
    dial->connection.is_held = false;
    for (int i = 0; i < MEETING_PORTS && !awaits_welcome(dial); ++i) {
        const struct dial *other = &search->dials[i];
        if (other != dial && awaits_welcome(other) && clock_now_ms() - other->answered_ms < ANSWERING_MS)
            dial->connection.is_held = true;
    }
}

/* A listener of this run that has heard this process, or could not understand it. */
static bool
has_refused(const struct search *search, const struct dial *dial)
{
    const struct auth_challenge *challenge = &dial->connection.challenge;
    return memcmp(challenge->nonce, search->mark, RUN_BYTES) == 0 &&
           (dial->connection.answers > 0 || auth_other_version(challenge) != 0);
}

static enum search_answer
step_dial(struct search *search, struct dial *dial, int *fd_p)
{
    struct error why;
    if (!dial->is_open && clock_now_ms() < dial->next_ms)
        return SEARCH_CONTINUES;
    if (!dial->is_open)
        begin_dial(search, dial);
    hold_back(search, dial);
    enum connect_outcome outcome = supervisor_connect_step(&dial->connection, fd_p, &why);
    if (dial->answers != dial->connection.answers) {
        dial->answers = dial->connection.answers;
        dial->answered_ms = clock_now_ms();
        dial->turn = ++search->turns;
    }
    if (memcmp(dial->connection.challenge.nonce, search->mark, AUTH_MARK_BYTES) == 0) {
        if (outcome == CONNECT_DONE)
            close(*fd_p);
        supervisor_connect_close(&dial->connection);
        dial->is_open = false;
        return SEARCH_SELF;
    }
    if (outcome == CONNECT_CONTINUES)
        return SEARCH_CONTINUES;
    if (outcome == CONNECT_FAILED)
        end_dial(search, dial);
    dial->is_open = false;
    if (outcome == CONNECT_DONE)
        return SEARCH_FOUND;
    if (!has_refused(search, dial))
        return SEARCH_CONTINUES;
    search->other_version = auth_other_version(&dial->connection.challenge);
    return SEARCH_REFUSED;
}

/* Of the first `ports`, without those in `stepped`, the one that had an answer longest ago: none keeps another from its
 * turn. -1: there is none left. */
static int
next_in_turn(const struct search *search, unsigned ports, unsigned stepped)
{
    int next = -1;
    for (unsigned i = 0; i < ports; ++i) {
        if ((stepped >> i & 1) == 0 && (next < 0 || search->dials[i].turn < search->dials[next].turn))
            next = (int)i;
    }
    return next;
}

/* So many from `port` on exist, and are called by now. */
static unsigned
count_ports(const struct search *search)
{
    unsigned existing = UINT16_MAX + 1 - search->port;
    if (clock_now_ms() - search->begun_ms <= OTHER_PORTS_MS)
        return 1;
    return existing < MEETING_PORTS ? existing : MEETING_PORTS;
}

enum search_answer
search_step(struct search *search, int *fd_p, unsigned char key[AUTH_BYTES], unsigned *port_p)
{
    enum search_answer answer = SEARCH_CONTINUES;
    if (search->addresses.count == 0)
        return answer;
    if (search->begun_ms == 0)
        search->begun_ms = clock_now_ms();
    unsigned ports = count_ports(search), stepped = 0;
    int i = next_in_turn(search, ports, stepped);
    while (i >= 0 && answer == SEARCH_CONTINUES) {
        *port_p = search->port + (unsigned)i;
        answer = step_dial(search, &search->dials[i], fd_p);
        if (answer == SEARCH_FOUND)
            memcpy(key, search->dials[i].connection.key, AUTH_BYTES);
        stepped |= 1u << i;
        i = next_in_turn(search, ports, stepped);
    }
    if (answer == SEARCH_REFUSED)
        snprintf(search->reason, sizeof(search->reason), "port %u: another secret or number of processes", *port_p);
    return answer;
}

void
search_poll(struct search *search, struct pollfd polled[MEETING_PORTS])
{
    for (int i = 0; i < MEETING_PORTS; ++i) {
        struct dial *dial = &search->dials[i];
        polled[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        if (!dial->is_open)
            continue;
        hold_back(search, dial);
        polled[i] = supervisor_connect_poll(&dial->connection);
    }
}

int
search_other_version(const struct search *search)
{
    return search->other_version;
}

const char *
search_reason(const struct search *search)
{
    return search->reason;
}
