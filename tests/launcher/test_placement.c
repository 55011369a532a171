/*
 * test_placement.c - ranks get processors near their GPUs, cores of their own if they want them, and never one that the
 * launcher may not use: on random machines, with random sets of allowed processors and random places of GPUs.
 */
#include "launcher/start/placement.h"

#include "tests/lib/test.h"

enum { CASES = 300, MOST_RANKS = 24, DESCRIPTION_BYTES = 128 };

static hwloc_topology_t
machine(const char *description)
{
    hwloc_topology_t topology;
    ck_assert_int_eq(hwloc_topology_init(&topology), 0);
    ck_assert_int_eq(hwloc_topology_set_synthetic(topology, description), 0);
    ck_assert_int_eq(hwloc_topology_load(topology), 0);
    return topology;
}

/* What a test asks for is here, and is given back after it. */
static hwloc_bitmap_t shares[MOST_RANKS];
static struct error error;

static void
make_shares(void)
{
    for (int i = 0; i < MOST_RANKS; ++i)
        shares[i] = hwloc_bitmap_alloc();
}

static void
free_shares(void)
{
    for (int i = 0; i < MOST_RANKS; ++i)
        hwloc_bitmap_free(shares[i]);
}

static void
expect_list(hwloc_const_bitmap_t share, const char *list)
{
    char *text = NULL;
    ck_assert_int_gt(hwloc_bitmap_list_asprintf(&text, share), -1);
    ck_assert_str_eq(text, list);
    free(text);
}

/* ---- examples ---- */

static struct share_request
share_of(hwloc_topology_t topology, enum bind_choice bind, int count)
{
    return (struct share_request){.topology = topology,
                                  .allowed = hwloc_topology_get_topology_cpuset(topology),
                                  .bind = bind,
                                  .rank_count = count,
                                  .local_size = count};
}

TEST_GROUP(all, .timeout_s = 120, .setup = make_shares, .teardown = free_shares);

TEST(without_gpus_neighbours_share_a_node)
{
    hwloc_topology_t topology = machine("numa:2 core:4 pu:1");
    struct share_request request = share_of(topology, BIND_NUMA, 3);
    ck_assert(placement_share(&request, shares, &error));
    expect_list(shares[0], "0-3");
    expect_list(shares[1], "0-3");
    expect_list(shares[2], "4-7");
    request.rank_count = request.local_size = 1;
    ck_assert(placement_share(&request, shares, &error));
    expect_list(shares[0], "0-7");
    hwloc_topology_destroy(topology);
}

TEST(cores_near_a_gpu_are_divided_among_those_who_are_near_it)
{
    hwloc_topology_t topology = machine("numa:2 core:4 pu:2");
    hwloc_const_bitmap_t first = hwloc_get_numanode_obj_by_os_index(topology, 0)->cpuset;
    hwloc_const_bitmap_t second = hwloc_get_numanode_obj_by_os_index(topology, 1)->cpuset;
    const hwloc_const_bitmap_t near[] = {second, first, second, second};
    struct share_request request = share_of(topology, BIND_CORE, 4);
    request.near = near;
    ck_assert(placement_share(&request, shares, &error));
    expect_list(shares[0], "8-9");
    expect_list(shares[1], "0-7");
    expect_list(shares[2], "10-11");
    expect_list(shares[3], "12-15");
    request.bind = BIND_NUMA;
    ck_assert(placement_share(&request, shares, &error));
    expect_list(shares[0], "8-15");
    expect_list(shares[1], "0-7");
    ck_assert_int_eq(placement_node_of(topology, shares[0]), 1);
    ck_assert_int_eq(placement_node_of(topology, hwloc_topology_get_topology_cpuset(topology)), -1);
    hwloc_topology_destroy(topology);
}

TEST(too_few_cores_are_refused)
{
    hwloc_topology_t topology = machine("numa:1 core:2 pu:4");
    struct share_request request = share_of(topology, BIND_CORE, 3);
    ck_assert(!placement_share(&request, shares, &error));
    ck_assert_int_eq(error.exit_code, 2);
    ck_assert_says(error.text, "3 ranks would share 2");
    hwloc_topology_destroy(topology);
}

#define OBJECT(type, place, cpus, nodes, number)                                                   \
    "<object type=\"" type "\" os_index=\"" place "\" cpuset=\"" cpus "\" complete_cpuset=\"" cpus \
    "\" nodeset=\"" nodes "\" complete_nodeset=\"" nodes "\" gp_index=\"" number "\""
#define CORE(place, cpus, nodes, number, of_pu) \
    OBJECT("Core", place, cpus, nodes, number) ">" OBJECT("PU", place, cpus, nodes, of_pu) "/></object>\n"
#define PACKAGE(place, cpus, nodes, number, of_node) \
    OBJECT("Package", place, cpus, nodes, number)    \
    ">\n" OBJECT("NUMANode", place, cpus, nodes, of_node) " local_memory=\"1073741824\"/>\n"
#define GPU(bus, number, of_device)                                                                                   \
    "<object type=\"Bridge\" gp_index=\"" number "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" bus "-" bus \
    "]\"><object type=\"PCIDev\" gp_index=\"" of_device "\" pci_busid=\"0000:" bus                                    \
    ":00.0\" pci_type=\"0302 [10de:2330] [10de:0000] a1\" pci_link_speed=\"0.000000\"/></object>\n"

static const char two_sockets[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
                                  "\"hwloc2.dtd\">\n<topology version=\"2.0\">\n" //
    OBJECT("Machine", "0", "0x0000000f", "0x00000003",
           "1") " allowed_cpuset=\"0x0000000f\" allowed_nodeset=\"0x00000003\">\n" //
    GPU("60", "31", "32")                                                          //
    PACKAGE("0", "0x00000003", "0x00000001", "2", "3")                             //
    CORE("0", "0x00000001", "0x00000001", "4", "5")                                //
    CORE("1", "0x00000002", "0x00000001", "6", "7") "</object>\n"                  //
    PACKAGE("1", "0x0000000c", "0x00000002", "8", "9")                             //
    CORE("2", "0x00000004", "0x00000002", "10", "11")                              //
    CORE("3", "0x00000008", "0x00000002", "12", "13")                              //
    GPU("3b", "14", "15") "</object>\n</object>\n</topology>\n";

TEST(a_gpu_is_near_what_it_hangs_on)
{
    hwloc_topology_t topology;
    ck_assert_int_eq(hwloc_topology_init(&topology), 0);
    ck_assert_int_eq(hwloc_topology_set_xmlbuffer(topology, two_sockets, sizeof(two_sockets)), 0);
    ck_assert_int_eq(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
    ck_assert_int_eq(hwloc_topology_load(topology), 0);
    hwloc_const_bitmap_t near = placement_near(topology, "0000:3b:00.0");
    ck_assert_ptr_nonnull(near);
    expect_list(near, "2-3");
    ck_assert_ptr_null(placement_near(topology, "0000:60:00.0")); /* on the machine itself: near to all of it */
    ck_assert_ptr_null(placement_near(topology, "0000:99:00.0"));
    ck_assert_ptr_null(placement_near(topology, "no bus id"));
    hwloc_topology_destroy(topology);
}

/* ---- properties ---- */

/* A random machine and a random job on it. */
struct scene {
    unsigned seed;
    hwloc_topology_t topology;
    hwloc_bitmap_t allowed;
    int ranks;
    hwloc_const_bitmap_t near[MOST_RANKS];
    bool some_near;
    char description[DESCRIPTION_BYTES];
};

/* Loaded once for each description and kept: loading is nearly all that a scene takes. */
static hwloc_topology_t
known_machine(const char *description)
{
    static struct {
        char description[DESCRIPTION_BYTES];
        hwloc_topology_t topology;
    } known[CASES];
    int i = 0;
    while (known[i].topology != NULL && strcmp(known[i].description, description) != 0)
        ++i;
    if (known[i].topology == NULL) {
        snprintf(known[i].description, DESCRIPTION_BYTES, "%s", description);
        known[i].topology = machine(description);
    }
    return known[i].topology;
}

static unsigned
below(struct scene *scene, unsigned most)
{
    return (unsigned)rand_r(&scene->seed) % most;
}

static void
set_scene(struct scene *scene, unsigned seed)
{
    *scene = (struct scene){.seed = seed};
    snprintf(scene->description, sizeof(scene->description), "pack:%u numa:%u core:%u pu:%u", 1 + below(scene, 3),
             1 + below(scene, 3), 1 + below(scene, 6), 1 + below(scene, 2));
    scene->topology = known_machine(scene->description);
    hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(scene->topology);
    scene->allowed = hwloc_bitmap_dup(all);
    if (below(scene, 2) == 0) {
        for (int i = hwloc_bitmap_first(all); i >= 0; i = hwloc_bitmap_next(all, i)) {
            if (below(scene, 3) == 0 && hwloc_bitmap_weight(scene->allowed) > 1)
                hwloc_bitmap_clr(scene->allowed, (unsigned)i);
        }
    }
    scene->ranks = 1 + (int)below(scene, MOST_RANKS);
    int nodes = hwloc_get_nbobjs_by_type(scene->topology, HWLOC_OBJ_NUMANODE);
    bool with_gpus = below(scene, 3) != 0;
    for (int rank = 0; rank < scene->ranks && with_gpus && nodes > 1; ++rank) {
        unsigned what = below(scene, 8);
        hwloc_obj_t node = hwloc_get_obj_by_type(scene->topology, HWLOC_OBJ_NUMANODE, below(scene, (unsigned)nodes));
        hwloc_obj_t package = hwloc_get_obj_by_type(scene->topology, HWLOC_OBJ_PACKAGE, 0);
        scene->near[rank] = what == 0 ? NULL : what == 1 ? package->cpuset : node->cpuset;
        scene->some_near = scene->some_near || scene->near[rank] != NULL;
    }
}

static struct share_request
request_of(const struct scene *scene, enum bind_choice bind)
{
    return (struct share_request){.topology = scene->topology,
                                  .allowed = scene->allowed,
                                  .bind = bind,
                                  .rank_count = scene->ranks,
                                  .local_size = scene->ranks,
                                  .near = scene->near};
}

static void
check_inside(const struct scene *scene)
{
    for (int rank = 0; rank < scene->ranks; ++rank) {
        ck_assert_msg(!hwloc_bitmap_iszero(shares[rank]), "%s: rank %d has nothing", scene->description, rank);
        ck_assert_msg(hwloc_bitmap_isincluded(shares[rank], scene->allowed), "%s: rank %d got more than is allowed",
                      scene->description, rank);
    }
}

SEED_TEST(numa_is_inside_what_is_allowed_and_near, 0, CASES)
{
    struct scene scene;
    set_scene(&scene, seed);
    struct share_request request = request_of(&scene, BIND_NUMA);
    ck_assert(placement_share(&request, shares, &error));
    check_inside(&scene);
    hwloc_bitmap_t all = hwloc_bitmap_alloc();
    for (int rank = 0; rank < scene.ranks; ++rank) {
        hwloc_bitmap_or(all, all, shares[rank]);
        if (scene.near[rank] != NULL && hwloc_bitmap_intersects(scene.near[rank], scene.allowed))
            ck_assert(hwloc_bitmap_isincluded(shares[rank], scene.near[rank]));
    }
    int nodes = hwloc_get_nbobjs_by_type(scene.topology, HWLOC_OBJ_NUMANODE);
    if (!scene.some_near && scene.ranks >= nodes) /* nothing of the machine lies idle */
        ck_assert(hwloc_bitmap_isequal(all, scene.allowed));
    hwloc_bitmap_free(all);
    hwloc_bitmap_free(scene.allowed);
}

/* Do the processors of a core go to different ranks? */
static bool
divides_a_core(const struct scene *scene, hwloc_const_bitmap_t share)
{
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(scene->topology, HWLOC_OBJ_CORE, core)) != NULL) {
        hwloc_bitmap_t usable = hwloc_bitmap_alloc();
        hwloc_bitmap_and(usable, core->cpuset, scene->allowed);
        bool divided = hwloc_bitmap_intersects(usable, share) && !hwloc_bitmap_isincluded(usable, share);
        hwloc_bitmap_free(usable);
        if (divided)
            return true;
    }
    return false;
}

static void
check_apart(const struct scene *scene)
{
    for (int rank = 0; rank < scene->ranks; ++rank) {
        ck_assert(!divides_a_core(scene, shares[rank]));
        for (int other = 0; other < rank; ++other)
            ck_assert_msg(!hwloc_bitmap_intersects(shares[rank], shares[other]),
                          "%s: ranks %d and %d share a processor", scene->description, other, rank);
    }
}

SEED_TEST(core_gives_whole_cores_to_one_rank_each, 0, CASES)
{
    struct scene scene;
    set_scene(&scene, seed);
    struct share_request request = request_of(&scene, BIND_CORE);
    if (placement_share(&request, shares, &error)) {
        check_inside(&scene);
        check_apart(&scene);
    } else {
        ck_assert_says(error.text, "--bind core");
    }
    hwloc_bitmap_free(scene.allowed);
}

/* Under a cluster's launcher each rank is placed by a ddprun of its own, which knows of its own GPU only. */
SEED_TEST(ranks_that_are_placed_one_by_one_do_not_meet_either, 0, CASES)
{
    struct scene scene;
    set_scene(&scene, seed);
    bool ok = true;
    for (int rank = 0; ok && rank < scene.ranks; ++rank) {
        struct share_request request = request_of(&scene, BIND_CORE);
        request.rank_count = 1;
        request.first_local_rank = rank;
        request.near = &scene.near[rank];
        ok = placement_share(&request, &shares[rank], &error);
    }
    if (ok) {
        check_inside(&scene);
        check_apart(&scene);
    }
    hwloc_bitmap_free(scene.allowed);
}
