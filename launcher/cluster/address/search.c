/*
 * search.c - see search.h. A supervisor_connect for each port until one is taken in.
 */
#include "launcher/cluster/address/search.h"

#include "base/clock.h"
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
    ANSWERING_MS = 1500, /* for which the others wait where one port has this process's answer, and may lead to the same
                            listener */
    RUN_BYTES = AUTH_MARK_BYTES / 2, /* of a mark: what all listeners of a run share */
};

/* One port. */
struct dial {
    struct handshake root; /* where, and by which key */
    struct supervisor_connect connection;
    bool is_open;                 /* `connection` has begun and not ended */
    int64_t next_ms, answered_ms; /* answered_ms: of a challenge; 0: it has not come */
    int tries;
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

/* ---- ports ---- */

static void
begin_dial(struct search *search, struct dial *dial)
{
    dial->root.port = (uint16_t)(search->port + (unsigned)(dial - search->dials));
    dial->root.addresses = search->addresses;
    memcpy(dial->root.secret, search->key, AUTH_BYTES);
    supervisor_connect_begin(&dial->connection, &dial->root, "of no host", NULL, PEER_SUPERVISOR, search->number);
    dial->is_open = true;
    dial->answered_ms = 0;
}

/* The name may lead elsewhere by now: it is asked for again. */
static void
end_dial(struct search *search, struct dial *dial)
{
    int64_t now_ms = clock_now_ms(), wait_ms = FIRST_RETRY_MS << (dial->tries < 6 ? dial->tries : 6);
    bool is_other = dial->connection.state > CONNECT_IS_CHALLENGED;
    dial->is_open = false;
    ++dial->tries;
    dial->next_ms = now_ms + (wait_ms < LAST_RETRY_MS ? wait_ms : LAST_RETRY_MS);
    if (dial == search->dials)
        snprintf(search->reason, sizeof(search->reason), "port %d: %s", dial->root.port,
                 is_other ? "of another job" : strerror(dial->connection.reason));
    if (dial == search->dials && search->lookup == NULL && now_ms - search->asked_ms >= RESOLVE_MS)
        search->addresses.count = 0;
}

/* A process may pass the challenge of a listener on, at another port: this one is taken in once. */
static bool
is_held_up(const struct search *search, const struct dial *dial)
{
    for (int i = 0; i < MEETING_PORTS; ++i) {
        const struct dial *other = &search->dials[i];
        if (other != dial && other->is_open && other->answered_ms != 0 &&
            clock_now_ms() - other->answered_ms < ANSWERING_MS)
            return true;
    }
    return false;
}

static enum search_answer
step_dial(struct search *search, struct dial *dial, int *fd_p)
{
    struct error why;
    if (is_held_up(search, dial))
        return SEARCH_CONTINUES;
    if (!dial->is_open && clock_now_ms() < dial->next_ms)
        return SEARCH_CONTINUES;
    if (!dial->is_open)
        begin_dial(search, dial);
    enum connect_outcome outcome = supervisor_connect_step(&dial->connection, fd_p, &why);
    const unsigned char *mark = dial->connection.challenge.nonce;
    if (dial->answered_ms == 0 && dial->connection.state > CONNECT_IS_CHALLENGED)
        dial->answered_ms = clock_now_ms();
    if (memcmp(mark, search->mark, AUTH_MARK_BYTES) == 0) {
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
    if (memcmp(mark, search->mark, RUN_BYTES) != 0)
        return SEARCH_CONTINUES;
    search->other_version = auth_other_version(&dial->connection.challenge);
    return SEARCH_REFUSED;
}

enum search_answer
search_step(struct search *search, int *fd_p, unsigned char key[AUTH_BYTES], unsigned *port_p)
{
    enum search_answer answer = SEARCH_CONTINUES;
    if (search->addresses.count == 0)
        return answer;
    if (search->begun_ms == 0)
        search->begun_ms = clock_now_ms();
    unsigned ports = clock_now_ms() - search->begun_ms > OTHER_PORTS_MS ? MEETING_PORTS : 1;
    for (unsigned i = 0; i < ports && answer == SEARCH_CONTINUES && search->port + i <= UINT16_MAX; ++i) {
        *port_p = search->port + i;
        answer = step_dial(search, &search->dials[i], fd_p);
        if (answer == SEARCH_FOUND)
            memcpy(key, search->dials[i].connection.key, AUTH_BYTES);
    }
    if (answer == SEARCH_REFUSED)
        snprintf(search->reason, sizeof(search->reason), "port %u: another secret or number of processes", *port_p);
    return answer;
}

void
search_poll(const struct search *search, struct pollfd polled[MEETING_PORTS])
{
    for (int i = 0; i < MEETING_PORTS; ++i)
        polled[i] = search->dials[i].is_open && !is_held_up(search, &search->dials[i])
                        ? supervisor_connect_poll(&search->dials[i].connection)
                        : (struct pollfd){.fd = -1, .events = POLLIN};
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
