/*
 * placement.c - see placement.h: which ranks are bound at all, where the GPUs are, and what the system is asked for.
 * Which rank gets which processors is decided in placement_share.c.
 */
#include "launcher/start/placement.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>

/* Where the GPU of each rank is: bus ids, "" where that is not known. */
struct gpu_places {
    char (*bus_ids)[NVML_TEXT_BYTES];
    bool some; /* are known */
};

/* ---- where the GPUs are ---- */

/* CUDA counts GPUs by speed unless CUDA_DEVICE_ORDER says otherwise, NVML by bus: only among equal GPUs the two are the
 * same. */
static bool
is_counted_by_bus(const struct nvml *nvml)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    struct nvml_gpu first, other;
    int count = nvml_gpu_count(nvml);
    bool by_bus = order != NULL && strcmp(order, "PCI_BUS_ID") == 0;
    for (int i = 0; i < count; ++i) {
        if (!nvml_gpu_read(nvml, i, i == 0 ? &first : &other))
            return false;
        /* A divided GPU counts by its parts. */
        if ((i == 0 ? &first : &other)->is_divided || (!by_bus && i > 0 && strcmp(first.name, other.name) != 0))
            return false;
    }
    return true;
}

static bool
look_up_gpu(const struct nvml *nvml, bool by_bus, const char *name, char bus_id[NVML_TEXT_BYTES])
{
    struct nvml_gpu gpu;
    int index = gpu_list_index(name);
    if (index < 0)
        return nvml_bus_id_of(nvml, name, bus_id);
    if (!by_bus || !nvml_gpu_read(nvml, index, &gpu) || gpu.bus_id[0] == '\0')
        return false;
    memcpy(bus_id, gpu.bus_id, NVML_TEXT_BYTES);
    return true;
}

bool
placement_find_gpus(const struct device_plan *devices, int rank_count, char (*bus_ids)[NVML_TEXT_BYTES])
{
    const char *why;
    struct nvml *nvml = devices->softgpu ? NULL : nvml_open(&why);
    bool some = false, by_bus = nvml != NULL && is_counted_by_bus(nvml);
    for (int rank = 0; rank < rank_count; ++rank) {
        const char *name = devices->visible[rank];
        if (nvml != NULL && name != NULL && look_up_gpu(nvml, by_bus, name, bus_ids[rank]))
            some = true;
        else
            bus_ids[rank][0] = '\0';
    }
    nvml_close(nvml);
    return some;
}

static void
find_gpus(const struct device_plan *devices, int rank_count, struct gpu_places *places)
{
    places->bus_ids = xcalloc((size_t)rank_count, sizeof(*places->bus_ids));
    places->some = placement_find_gpus(devices, rank_count, places->bus_ids);
}

/* ---- the machine ---- */

/* Devices on the bus are of interest, what their drivers tell of them is not: that would start them. */
static hwloc_topology_t
look_by_hwloc(bool with_devices)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (with_devices) {
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

/* hwloc's plug-ins would be loaded, with libraries of X and of GPUs; the kernel tells what is needed here (hwloc's
 * manual, "Components and plugins"). The variable is put back, for ranks inherit it. */
static hwloc_topology_t
look_at_machine(bool with_devices)
{
    static const char variable[] = "HWLOC_PLUGINS_PATH";
    char *old = getenv(variable) != NULL ? xstrdup(getenv(variable)) : NULL;
    setenv(variable, "/nonexistent", 1);
    hwloc_topology_t topology = look_by_hwloc(with_devices);
    if (old != NULL)
        setenv(variable, old, 1);
    else
        unsetenv(variable);
    free(old);
    return topology;
}

/* What this process may run on: of what its cgroup allows (which hwloc knows), what taskset, Slurm or mpirun left. */
static hwloc_bitmap_t
own_processors(hwloc_topology_t topology)
{
    enum { MOST_PROCESSORS = 1 << 16 };
    size_t bytes = CPU_ALLOC_SIZE(MOST_PROCESSORS);
    cpu_set_t *set = xcalloc(1, bytes);
    hwloc_bitmap_t own = hwloc_bitmap_alloc();
    int got = (int)syscall(SYS_sched_getaffinity, 0, bytes, set);
    for (int i = 0; got > 0 && i < got * 8; ++i) {
        if (CPU_ISSET_S(i, bytes, set))
            hwloc_bitmap_set(own, (unsigned)i);
    }
    hwloc_bitmap_and(own, own, hwloc_topology_get_topology_cpuset(topology));
    free(set);
    return own;
}

/* Containers often forbid the calls for memory; then the memory is where the processors are anyway, as long as there is
 * some. */
static bool
may_choose_memory(hwloc_topology_t topology)
{
    return hwloc_topology_is_thissystem(topology) && syscall(SYS_get_mempolicy, NULL, NULL, 0, NULL, 0) == 0;
}

/* ---- the decision ---- */

static struct placement
bound_to_nothing(int rank_count, const char *why)
{
    struct placement placement = {.rank_count = rank_count,
                                  .ranks = xcalloc((size_t)rank_count, sizeof(*placement.ranks)),
                                  .what = "none",
                                  .why = why};
    for (int rank = 0; rank < rank_count; ++rank)
        placement.ranks[rank].memory_node = -1;
    return placement;
}

static void
set_place(hwloc_topology_t topology, hwloc_const_bitmap_t share, bool with_memory, struct rank_place *place)
{
    int count = hwloc_bitmap_last(share) + 1;
    place->bytes = CPU_ALLOC_SIZE(count);
    place->processors = xcalloc(1, place->bytes);
    for (int i = hwloc_bitmap_first(share); i >= 0; i = hwloc_bitmap_next(share, i))
        CPU_SET_S(i, place->bytes, place->processors);
    if (hwloc_bitmap_list_asprintf(&place->list, share) < 0)
        place->list = xstrdup("?");
    place->memory_node = with_memory ? placement_node_of(topology, share) : -1;
}

/* What a decision is made from. */
struct scene {
    hwloc_topology_t topology;
    hwloc_bitmap_t own;
    hwloc_const_bitmap_t *near; /* of each rank; NULL: not known */
    bool some_near;
    bool is_bound; /* the launcher itself, to a part of the machine */
};

/* Why ranks are left alone; NULL: they are bound. */
static const char *
reason_for_none(enum bind_choice bind, const struct placement_subject *subject, const struct scene *scene)
{
    if (hwloc_bitmap_iszero(scene->own))
        return "none of the machine's processors may be used";
    if (scene->is_bound && subject->in_cluster)
        return "the cluster's launcher has bound this rank already";
    if (bind != BIND_AUTO)
        return NULL;
    if (scene->is_bound)
        return "ddprun itself was bound to a part of the machine";
    return scene->some_near ? NULL : "all processors are equally near to the GPUs";
}

static bool
bind_ranks(enum bind_choice bind, const struct placement_subject *subject, const struct scene *scene,
           struct placement *placement, struct error *error)
{
    struct share_request request = {
        .topology = scene->topology,
        .allowed = scene->own,
        .bind = bind == BIND_CORE ? BIND_CORE : BIND_NUMA,
        .rank_count = subject->rank_count,
        .first_local_rank = subject->first_local_rank,
        .local_size = subject->local_size,
        .near = scene->near,
    };
    hwloc_bitmap_t *shares = xcalloc((size_t)subject->rank_count, sizeof(hwloc_bitmap_t));
    for (int rank = 0; rank < subject->rank_count; ++rank)
        shares[rank] = hwloc_bitmap_alloc();
    bool ok = placement_share(&request, shares, error);
    bool with_memory = may_choose_memory(scene->topology);
    if (ok) {
        *placement = bound_to_nothing(subject->rank_count, bind == BIND_AUTO ? "near the GPUs, as usual" : "by --bind");
        placement->what = request.bind == BIND_CORE ? "core" : "numa";
    }
    for (int rank = 0; rank < subject->rank_count; ++rank) {
        if (ok)
            set_place(scene->topology, shares[rank], with_memory, &placement->ranks[rank]);
        hwloc_bitmap_free(shares[rank]);
    }
    free(shares);
    return ok;
}

static bool
decide(enum bind_choice bind, const struct gpu_places *places, const struct placement_subject *subject,
       struct placement *placement, struct error *error)
{
    struct scene scene = {.topology = look_at_machine(places->some)};
    if (scene.topology == NULL && bind != BIND_AUTO)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "hwloc cannot look at this machine: %s; mount /sys and /proc, or use --bind none",
                         strerror(errno));
    if (scene.topology == NULL) {
        *placement = bound_to_nothing(subject->rank_count, "hwloc cannot look at this machine");
        return true;
    }
    scene.own = own_processors(scene.topology);
    scene.is_bound = !hwloc_bitmap_isequal(scene.own, hwloc_topology_get_topology_cpuset(scene.topology));
    scene.near = xcalloc((size_t)subject->rank_count, sizeof(*scene.near));
    for (int rank = 0; rank < subject->rank_count; ++rank) {
        if (places->bus_ids[rank][0] != '\0')
            scene.near[rank] = placement_near(scene.topology, places->bus_ids[rank]);
        scene.some_near = scene.some_near || scene.near[rank] != NULL;
    }
    const char *why = reason_for_none(bind, subject, &scene);
    bool ok = true;
    if (why != NULL) {
        *placement = bound_to_nothing(subject->rank_count, why);
        placement->is_refused = bind != BIND_AUTO;
    } else {
        ok = bind_ranks(bind, subject, &scene, placement, error);
    }
    free(scene.near);
    hwloc_bitmap_free(scene.own);
    hwloc_topology_destroy(scene.topology);
    return ok;
}

/* Processors that a process may run on; 0: this one. */
static int
count_processors(pid_t pid)
{
    enum { MOST_PROCESSORS = 1 << 16 };
    size_t bytes = CPU_ALLOC_SIZE(MOST_PROCESSORS);
    cpu_set_t *set = xcalloc(1, bytes);
    int count = sched_getaffinity(pid, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    free(set);
    return count;
}

/*
 * A rank's share of the processors: those that it is bound to, at most its part of all that the ranks of the host have
 * together. What a cluster's launcher has bound a rank to, the rank sees by itself.
 */
static void
share_processors(const struct placement_subject *subject, struct placement *placement)
{
    int own = count_processors(0);
    bool is_bound_outside = subject->in_cluster && own < count_processors(1); /* the system's first process */
    if (subject->local_size < 2 || is_bound_outside)
        return;
    int part = own > subject->local_size ? own / subject->local_size : 1;
    for (int i = 0; i < placement->rank_count; ++i) {
        struct rank_place *place = &placement->ranks[i];
        int bound = place->processors != NULL ? CPU_COUNT_S(place->bytes, place->processors) : part;
        place->share = bound < part ? bound : part;
    }
}

static bool
choose(const struct options *options, const struct device_plan *devices, const struct placement_subject *subject,
       struct placement *placement, struct error *error)
{
    if (options->bind == BIND_NONE) {
        *placement = bound_to_nothing(subject->rank_count, "by --bind");
        return true;
    }
    struct gpu_places places;
    find_gpus(devices, subject->rank_count, &places);
    bool ok = true;
    if (options->bind == BIND_AUTO && !places.some)
        *placement = bound_to_nothing(subject->rank_count, devices->softgpu ? "the stand-in is not near any cores"
                                                                            : "where the GPUs are is not known");
    else
        ok = decide(options->bind, &places, subject, placement, error);
    free(places.bus_ids);
    return ok;
}

bool
placement_make(const struct options *options, const struct device_plan *devices,
               const struct placement_subject *subject, struct placement *placement, struct error *error)
{
    if (!choose(options, devices, subject, placement, error))
        return false;
    share_processors(subject, placement);
    return true;
}

/* ---- in the rank ---- */

int
placement_enter(const struct rank_place *place)
{
    if (place->processors != NULL && sched_setaffinity(0, place->bytes, place->processors) != 0)
        return errno;
    /* A wish: that it was allowed is known (may_choose_memory), and a node without memory is no reason not to start. */
    unsigned long nodes[1024 / (8 * sizeof(unsigned long))] = {0};
    const unsigned bits = 8 * sizeof(nodes[0]);
    if (place->memory_node >= 0 && place->memory_node < 1024) {
        nodes[(unsigned)place->memory_node / bits] = 1ul << ((unsigned)place->memory_node % bits);
        (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, sizeof(nodes) * 8);
    }
    return 0;
}

char *
placement_describe(const struct rank_place *place)
{
    if (place->list == NULL)
        return xstrdup("not bound to cores");
    if (place->memory_node < 0)
        return xasprintf("on processors %s", place->list);
    return xasprintf("on processors %s and memory of node %d", place->list, place->memory_node);
}

void
placement_free(struct placement *placement)
{
    for (int rank = 0; rank < placement->rank_count; ++rank) {
        free(placement->ranks[rank].processors);
        free(placement->ranks[rank].list);
    }
    free(placement->ranks);
    *placement = (struct placement){0};
}
