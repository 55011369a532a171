/* placement_share.c - see placement.h. */
#include "launcher/start/placement.h"

#include "base/assertion.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

/* Part i of k of n things in a row is [begin, end): parts differ by at most one, and are empty only where n < k. */
struct part {
    unsigned begin, end;
};

static struct part
part_of(unsigned n, unsigned i, unsigned k)
{
    return (struct part){(unsigned)((uint64_t)n * i / k), (unsigned)((uint64_t)n * (i + 1) / k)};
}

hwloc_const_bitmap_t
placement_near(hwloc_topology_t topology, const char *bus_id)
{
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, bus_id);
    hwloc_obj_t around = device != NULL ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
    if (around == NULL || around->cpuset == NULL || hwloc_bitmap_iszero(around->cpuset) ||
        hwloc_bitmap_isequal(around->cpuset, hwloc_topology_get_topology_cpuset(topology)))
        return NULL;
    return around->cpuset;
}

int
placement_node_of(hwloc_topology_t topology, hwloc_const_bitmap_t processors)
{
    hwloc_obj_t node = NULL;
    int found = -1;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        if (node->cpuset == NULL || !hwloc_bitmap_intersects(node->cpuset, processors))
            continue;
        if (found >= 0)
            return -1;
        found = (int)node->os_index;
    }
    return found;
}

/* The things of a type that have something of `within`, in the machine's order. */
static unsigned
list_inside(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t within, hwloc_obj_t *list)
{
    unsigned count = 0;
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL) {
        if (object->cpuset != NULL && hwloc_bitmap_intersects(object->cpuset, within))
            list[count++] = object;
    }
    return count;
}

static hwloc_obj_t *
list_for(hwloc_topology_t topology, hwloc_obj_type_t type)
{
    int count = hwloc_get_nbobjs_by_type(topology, type);
    return xcalloc(count > 0 ? (size_t)count : 1, sizeof(hwloc_obj_t));
}

/* `share` becomes what of list[part] lies within. */
static void
set_share(hwloc_obj_t *list, struct part part, hwloc_const_bitmap_t within, hwloc_bitmap_t share)
{
    hwloc_bitmap_zero(share);
    for (unsigned i = part.begin; i < part.end; ++i)
        hwloc_bitmap_or(share, share, list[i]->cpuset);
    hwloc_bitmap_and(share, share, within);
}

static bool
any_is_known(const struct share_request *request)
{
    for (int rank = 0; request->near != NULL && rank < request->rank_count; ++rank) {
        if (request->near[rank] != NULL)
            return true;
    }
    return false;
}

/* Near its GPU, as far as that may be used. */
static void
set_near(const struct share_request *request, hwloc_bitmap_t *shares)
{
    for (int rank = 0; rank < request->rank_count; ++rank) {
        hwloc_bitmap_copy(shares[rank], request->allowed);
        if (request->near != NULL && request->near[rank] != NULL &&
            hwloc_bitmap_intersects(request->near[rank], request->allowed))
            hwloc_bitmap_and(shares[rank], request->near[rank], request->allowed);
    }
}

/* Without GPUs to be near to: neighbours among the ranks share a node, or each has several nodes. */
static void
spread_over_nodes(const struct share_request *request, hwloc_bitmap_t *shares)
{
    hwloc_obj_t *nodes = list_for(request->topology, HWLOC_OBJ_NUMANODE);
    unsigned count = list_inside(request->topology, HWLOC_OBJ_NUMANODE, request->allowed, nodes);
    for (int rank = 0; rank < request->rank_count; ++rank) {
        unsigned place = (unsigned)(request->first_local_rank + rank), ranks = (unsigned)request->local_size;
        struct part part = part_of(count, place, ranks);
        if (count > 0 && count < ranks) {
            part.begin = (unsigned)((uint64_t)count * place / ranks);
            part.end = part.begin + 1;
        }
        if (count == 0)
            hwloc_bitmap_copy(shares[rank], request->allowed);
        else
            set_share(nodes, part, request->allowed, shares[rank]);
    }
    free(nodes);
}

/* Are any two of the sets either the same or without a common processor? Only then can each be divided by itself. */
static bool
are_apart(hwloc_bitmap_t *sets, int count)
{
    for (int a = 0; a < count; ++a) {
        for (int b = a + 1; b < count; ++b) {
            if (!hwloc_bitmap_isequal(sets[a], sets[b]) && hwloc_bitmap_intersects(sets[a], sets[b]))
                return false;
        }
    }
    return true;
}

/* Which of the ranks with the same set this one is, and how many they are. */
static void
place_among(hwloc_bitmap_t *sets, int count, int rank, unsigned *place, unsigned *ranks)
{
    *place = *ranks = 0;
    for (int other = 0; other < count; ++other) {
        if (hwloc_bitmap_isequal(sets[other], sets[rank])) {
            *place += other < rank;
            ++*ranks;
        }
    }
}

static bool
too_few_cores(struct error *error, unsigned ranks, unsigned cores)
{
    return error_set(
        error, DDPRUN_EXIT_USAGE,
        "--bind core gives each rank cores of its own, but %u ranks would share %u core%s; lower -n, or use --bind "
        "numa or none",
        ranks, cores, cores == 1 ? "" : "s");
}

/* Some virtual machines have processors without cores. */
static hwloc_obj_type_t
core_type(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

/* bases[rank]: what its share is cut from. `is_part`: the ranks at hand are not all of the machine's, and the bases of
 * the others are the same. */
static bool
cut_cores(const struct share_request *request, hwloc_bitmap_t *bases, bool is_part, hwloc_bitmap_t *shares,
          struct error *error)
{
    hwloc_obj_type_t type = core_type(request->topology);
    hwloc_obj_t *cores = list_for(request->topology, type);
    bool ok = true;
    for (int rank = 0; ok && rank < request->rank_count; ++rank) {
        unsigned place = (unsigned)(request->first_local_rank + rank), ranks = (unsigned)request->local_size;
        if (!is_part)
            place_among(bases, request->rank_count, rank, &place, &ranks);
        unsigned count = list_inside(request->topology, type, bases[rank], cores);
        ok = count >= ranks || too_few_cores(error, ranks, count);
        if (ok)
            set_share(cores, part_of(count, place, ranks), bases[rank], shares[rank]);
    }
    free(cores);
    return ok;
}

static bool
are_disjoint(hwloc_bitmap_t *sets, int count)
{
    for (int a = 0; a < count; ++a) {
        for (int b = a + 1; b < count; ++b) {
            if (hwloc_bitmap_intersects(sets[a], sets[b]))
                return false;
        }
    }
    return true;
}

static bool
share_cores(const struct share_request *request, hwloc_bitmap_t *shares, struct error *error)
{
    /* Where the GPUs of other launchers' ranks are is not known here: all divide the whole machine then. */
    bool is_part = request->rank_count != request->local_size;
    hwloc_bitmap_t *bases = xcalloc((size_t)request->rank_count, sizeof(*bases));
    for (int rank = 0; rank < request->rank_count; ++rank)
        bases[rank] = hwloc_bitmap_alloc();
    set_near(request, bases);
    if (is_part || !are_apart(bases, request->rank_count)) {
        for (int rank = 0; rank < request->rank_count; ++rank)
            hwloc_bitmap_copy(bases[rank], request->allowed);
    }
    bool ok = cut_cores(request, bases, is_part, shares, error);
    ASSERT(!ok || are_disjoint(shares, request->rank_count));
    for (int rank = 0; rank < request->rank_count; ++rank)
        hwloc_bitmap_free(bases[rank]);
    free(bases);
    return ok;
}

bool
placement_share(const struct share_request *request, hwloc_bitmap_t *shares, struct error *error)
{
    if (request->bind == BIND_CORE)
        return share_cores(request, shares, error);
    if (any_is_known(request))
        set_near(request, shares);
    else
        spread_over_nodes(request, shares);
    return true;
}
