/*
 * test_devices.c - who sees which GPU, from what is asked for and what is there.
 */
#include "launcher/start/devices.h"

#include "base/protocol.h"

#include "tests/lib/test.h"

/* What is there: GPUs, or devices of the stand-in; SEEN: those that CUDA_VISIBLE_DEVICES names. */
#define GPUS(count)       .gpu_count = (count)
#define STAND_IN(devices) .softgpu = true, .softgpu_devices = (devices)
#define SEEN(list)        .visible_devices = (list)

/* Parts of one GPU have one letter after "MIG-". */
static bool
first_letters_match(const char *const *parts, int count)
{
    for (int i = 0; i < count; ++i) {
        for (int k = 0; k < i; ++k) {
            if (parts[i][4] == parts[k][4])
                return true;
        }
    }
    return false;
}

static const struct placement {
    const char *what;
    int ranks;        /* 0: not given */
    const char *gpus; /* --gpus */
    bool share;
    struct device_inventory there;
    const char *wanted; /* CUDA_VISIBLE_DEVICES of the ranks, '|' between them, "-" for none; NULL: refused */
} placements[] = {
    {"one rank per GPU by default", 0, NULL, false, {GPUS(3)}, "0|1|2"},
    {"fewer ranks take the first ones", 2, NULL, false, {GPUS(3)}, "0|1"},
    {"more ranks than GPUs", 4, NULL, false, {GPUS(3)}, NULL},
    {"sharing takes turns", 5, NULL, true, {GPUS(2)}, "0|1|0|1|0"},
    {"sharing with enough GPUs is no sharing", 2, NULL, true, {GPUS(2)}, "0|1"},
    {"parts of GPUs may be of one", 2, "MIG-ab,MIG-cd", true, {GPUS(2)}, "MIG-ab|MIG-cd"},
    {"and share it without --share-gpu", 2, "MIG-ab,MIG-cd", false, {GPUS(2)}, "MIG-ab|MIG-cd"},
    {"parts of different GPUs",
     2,
     "MIG-a1,MIG-b1",
     false,
     {GPUS(2), .may_share = first_letters_match},
     "MIG-a1|MIG-b1"},
    {"three parts, two of one",
     3,
     "MIG-a1,MIG-b1,MIG-a2",
     false,
     {GPUS(2), .may_share = first_letters_match},
     "MIG-a1|MIG-b1|MIG-a2"},
    {"a list gives its ranks", 0, "2,0", false, {GPUS(3)}, "2|0"},
    {"a list that is too short", 3, "2,0", false, {GPUS(3)}, NULL},
    {"a list with a GPU that is not there", 1, "3", false, {GPUS(3)}, NULL},
    {"UUIDs are taken as they are", 0, "GPU-ab,MIG-cd", false, {GPUS(3)}, "GPU-ab|MIG-cd"},
    {"an inherited choice counts", 0, NULL, false, {GPUS(8), SEEN("5,3")}, "5|3"},
    {"an inherited choice limits", 3, NULL, false, {GPUS(8), SEEN("5,3")}, NULL},
    {"a list counts within it", 0, "1", false, {GPUS(8), SEEN("5,3")}, "3"},
    {"and not beyond it", 0, "2", false, {GPUS(8), SEEN("5,3")}, NULL},
    {"as CUDA, no entry after an invalid one counts", 0, NULL, false, {GPUS(4), SEEN("1,-1,2")}, "1"},
    {"blanks as in CUDA", 0, NULL, false, {GPUS(4), SEEN(" 1 , 2")}, "1|2"},
    {"an inherited UUID", 0, NULL, false, {GPUS(4), SEEN("GPU-12ab")}, "GPU-12ab"},
    {"no GPU visible", 1, NULL, false, {GPUS(4), SEEN("")}, NULL},
    {"no valid GPU visible", 1, NULL, false, {GPUS(4), SEEN("7")}, NULL},
    {"the stand-in: as many as asked for", 3, NULL, false, {.softgpu = true}, "-|-|-"},
    {"the stand-in: one by default", 0, NULL, false, {.softgpu = true}, "-"},
    {"the stand-in ignores a choice of real GPUs", 2, NULL, false, {.softgpu = true, SEEN("7")}, "-|-"},
    {"the stand-in has nothing to choose from", 1, "0", false, {.softgpu = true}, NULL},
    {"the stand-in's devices", 0, NULL, false, {STAND_IN("2")}, "0|1"},
    {"the stand-in's devices limit", 3, NULL, false, {STAND_IN("2")}, NULL},
    {"the stand-in's devices shared", 3, NULL, true, {STAND_IN("2")}, "0|1|0"},
    {"the stand-in's devices chosen", 0, "1", false, {STAND_IN("2")}, "1"},
    {"the stand-in's devices by name", 0, "3,GPU-0,GPU-51f0-2", false, {STAND_IN("4")}, "3|0|2"},
    {"a name is in hexadecimal", 0, "GPU-3f", false, {STAND_IN("64")}, "63"},
    {"a name after the stand-in's devices", 1, "GPU-1234", false, {STAND_IN("4")}, NULL},
    {"one above all numbers", 1, "GPU-10000000000000000", false, {STAND_IN("4")}, NULL},
    {"a name that ends in no number", 1, "GPU-zz", false, {STAND_IN("4")}, NULL},
    {"a part of a GPU, of which the stand-in has none", 1, "MIG-1", false, {STAND_IN("4")}, NULL},
    {"a number and a name that is not there", 0, "0,GPU-4", false, {STAND_IN("4")}, NULL},
    {"one device in two ways", 0, "1,GPU-1", false, {STAND_IN("4")}, NULL},
    {"a number above the stand-in's devices", 1, "4", false, {STAND_IN("4")}, NULL},
    {"the stand-in's devices, by an inherited choice", 0, NULL, false, {STAND_IN("4"), SEEN("2, GPU-3,4,1")}, "2|3"},
    {"--gpus counts within it", 0, "1", false, {STAND_IN("4"), SEEN("2,3")}, "3"},
    {"and not beyond it, on the stand-in", 0, "3", false, {STAND_IN("4"), SEEN("2,3")}, NULL},
    {"and limits, on the stand-in", 3, NULL, false, {STAND_IN("4"), SEEN("2,3")}, NULL},
    {"a choice that leaves none of the stand-in's", 1, NULL, false, {STAND_IN("4"), SEEN("4")}, NULL},
    {"as many devices as the stand-in makes", 0, "63", false, {STAND_IN("64")}, "63"},
    {"more than it makes", 2, NULL, false, {STAND_IN("65")}, NULL},
    {"many more", 0, NULL, false, {STAND_IN("1000")}, NULL},
    {"sharing nothing", 2, NULL, true, {GPUS(0)}, NULL},
    {"no number of devices", 1, NULL, false, {STAND_IN("0")}, NULL},
    {"not a number of devices", 1, NULL, false, {STAND_IN("two")}, NULL},
};

TABLE_TEST(ranks_see_their_gpus, placements)
{
    const struct placement *placement = &placements[_i];
    struct options options = {.rank_count = placement->ranks, .share_gpu = placement->share};
    struct error error = {0};
    struct device_plan plan = {0};
    if (placement->gpus != NULL)
        ck_assert(gpu_list_parse(placement->gpus, &options.gpus, &error));

    bool made = device_plan_make(&options, &placement->there, &plan, &error);
    ck_assert_msg(made == (placement->wanted != NULL), "%s: %s", placement->what, made ? "accepted" : error.text);
    if (made) {
        char got[256] = "";
        size_t used = 0;
        for (int rank = 0; rank < plan.rank_count; ++rank)
            used += (size_t)snprintf(got + used, sizeof(got) - used, "%s%s", rank > 0 ? "|" : "",
                                     plan.visible[rank] != NULL ? plan.visible[rank] : "-");
        ck_assert_msg(strcmp(got, placement->wanted) == 0, "%s: %s", placement->what, got);
        ck_assert_int_eq(plan.one_device_each, placement->there.softgpu && placement->there.softgpu_devices == NULL);
        bool has_parts = strcmp(got, "MIG-ab|MIG-cd") == 0 || strcmp(got, "MIG-a1|MIG-b1|MIG-a2") == 0;
        bool is_shared = placement->share && strncmp(got, "0|1|0", 5) == 0;
        ck_assert_msg(plan.share_gpu == (is_shared || has_parts), "%s", placement->what);
        device_plan_free(&plan);
    } else {
        ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
        ck_assert_msg(strchr(error.text, '\n') == NULL, "%s", error.text);
        ck_assert_int_eq(plan.rank_count, 0);
    }
    options_free(&options);
}

/* One rank of several on its host, started by another launcher: what it alone sees. "-": the variable is removed. */
static const struct alone {
    const char *what;
    int local_rank, local_size;
    const char *gpus;
    bool share;
    struct device_inventory there;
    const char *wanted; /* NULL: refused */
} alones[] = {
    {"the second of two", 1, 2, NULL, false, {GPUS(4)}, "1"},
    {"the only one", 0, 1, NULL, false, {GPUS(4)}, "0"},
    {"more ranks than GPUs", 0, 3, NULL, false, {GPUS(2)}, NULL},
    {"more ranks than GPUs, shared", 2, 3, NULL, true, {GPUS(2)}, "0"},
    {"its scheduler gave it one, perhaps the same to all", 1, 2, NULL, true, {GPUS(2), SEEN("0")}, "0"},
    {"its scheduler gave it one", 2, 3, NULL, false, {GPUS(8), SEEN("5")}, "5"},
    {"its scheduler gave it a part of one, and others perhaps parts of the same",
     1,
     2,
     NULL,
     true,
     {GPUS(2), SEEN("MIG-ab")},
     "MIG-ab"},
    {"its scheduler gave it one, by UUID", 1, 2, NULL, false, {GPUS(2), SEEN("GPU-ab")}, "GPU-ab"},
    {"its scheduler gave all to all", 1, 2, NULL, false, {GPUS(8), SEEN("5,6")}, "6"},
    {"one GPU of the machine is no scheduler's choice", 1, 2, NULL, false, {GPUS(1)}, NULL},
    {"a list", 1, 2, "3,1", false, {GPUS(4)}, "1"},
    {"a list that is too short", 1, 2, "3", false, {GPUS(4)}, NULL},
    {"a scheduler that gave none", 0, 1, NULL, false, {GPUS(4), SEEN("")}, NULL},
    {"the stand-in", 1, 2, NULL, false, {.softgpu = true}, "-"},
    {"the stand-in's devices", 1, 2, NULL, false, {STAND_IN("2")}, "1"},
    {"the stand-in's devices limit", 1, 2, NULL, false, {STAND_IN("1")}, NULL},
    {"its scheduler gave it one of the stand-in's", 0, 2, NULL, false, {STAND_IN("2"), SEEN("1")}, "1"},
    {"its scheduler gave all of the stand-in's to all", 1, 2, NULL, false, {STAND_IN("2"), SEEN("0,1")}, "1"},
    {"a choice of real GPUs, on the stand-in", 1, 2, NULL, false, {.softgpu = true, SEEN("5")}, "-"},
};

TABLE_TEST(a_rank_of_another_launcher_sees_its_gpu, alones)
{
    const struct alone *alone = &alones[_i];
    struct options options = {.share_gpu = alone->share};
    struct error error = {0};
    struct device_plan plan = {0};
    if (alone->gpus != NULL)
        ck_assert(gpu_list_parse(alone->gpus, &options.gpus, &error));
    bool made = device_plan_make_one(&options, &alone->there, alone->local_rank, alone->local_size, &plan, &error);
    ck_assert_msg(made == (alone->wanted != NULL), "%s: %s", alone->what, made ? "accepted" : error.text);
    if (made) {
        ck_assert_int_eq(plan.rank_count, 1);
        ck_assert_int_eq(plan.share_gpu, alone->share);
        const char *got = plan.visible[0] != NULL ? plan.visible[0] : "-";
        ck_assert_msg(strcmp(got, alone->wanted) == 0, "%s: %s", alone->what, got);
        device_plan_free(&plan);
    }
    options_free(&options);
}
