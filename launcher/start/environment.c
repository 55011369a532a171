/* environment.c - see environment.h. */
#include "launcher/start/environment.h"

#include "base/protocol.h"
#include "base/supervisor_link.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/options.h"
#include "launcher/start/program.h"

static size_t
length_of(char *const *list)
{
    size_t count = 0;
    while (list[count] != NULL)
        ++count;
    return count;
}

char **
environment_copy(char *const *list)
{
    size_t count = length_of(list);
    char **copy = xcalloc(count + 1, sizeof(*copy));
    for (size_t i = 0; i < count; ++i)
        copy[i] = xstrdup(list[i]);
    return copy;
}

static bool
is_named(const char *entry, const char *name)
{
    size_t length = strcspn(name, "=");
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

const char *
environment_get(char *const *list, const char *name)
{
    for (; *list != NULL; ++list) {
        if (is_named(*list, name))
            return strchr(*list, '=') + 1;
    }
    return NULL;
}

/* Frees and removes the entries for which `is_left_out` is true. */
static void
leave_out(char **list, bool (*is_left_out)(const char *entry, const char *name), const char *name)
{
    char **to = list;
    for (; *list != NULL; ++list) {
        if (is_left_out(*list, name))
            free(*list);
        else
            *to++ = *list;
    }
    *to = NULL;
}

void
environment_unset(char **list, const char *name)
{
    leave_out(list, is_named, name);
}

void
environment_set(char ***list, const char *name, const char *value)
{
    char *entry = xasprintf("%s=%s", name, value); /* before unset: value may come from the list */
    environment_unset(*list, name);
    size_t count = length_of(*list);
    *list = xrealloc(*list, (count + 2) * sizeof(**list));
    (*list)[count] = entry;
    (*list)[count + 1] = NULL;
}

static void
set_or_unset(char ***list, const char *name, const char *value)
{
    if (value != NULL)
        environment_set(list, name, value);
    else
        environment_unset(*list, name);
}

static void
set_number(char ***list, const char *name, unsigned long long value)
{
    char *text = xasprintf("%llu", value);
    environment_set(list, name, text);
    free(text);
}

enum preload_place { PRELOAD_FIRST, PRELOAD_LAST };

/* Adds a library to those that are preloaded, before or after those that are there. */
static void
add_preload(char ***list, const char *library, enum preload_place place)
{
    const char *old = environment_get(*list, "LD_PRELOAD");
    if (old == NULL || old[0] == '\0') {
        environment_set(list, "LD_PRELOAD", library);
        return;
    }
    if (strstr(old, library) != NULL)
        return;
    const char *first = place == PRELOAD_FIRST ? library : old;
    const char *second = place == PRELOAD_FIRST ? old : library;
    char *both = xasprintf("%s:%s", first, second);
    environment_set(list, "LD_PRELOAD", both);
    free(both);
}

static void
prepend_library_folder(char ***list, const char *folder)
{
    const char *old = environment_get(*list, "LD_LIBRARY_PATH");
    bool alone = old == NULL || old[0] == '\0'; /* a trailing ':' would mean the current folder */
    char *both = xasprintf("%s%s%s", folder, alone ? "" : ":", alone ? "" : old);
    environment_set(list, "LD_LIBRARY_PATH", both);
    free(both);
}

static void
set_default(char ***list, const char *name, const char *value)
{
    if (environment_get(*list, name) == NULL)
        environment_set(list, name, value);
}

/* Versions as ncclGetVersion has them. */
enum { MIB = 1 << 20, SHARES_GPUS_SINCE = 23000, NVLS_MEETS_SINCE = 21900, NVLS_MEETS_UNTIL = 22400 };

/*
 * NCCL refuses two ranks of one host on one GPU. Since 2.30 a variable allows them; before, each rank gets a host of
 * its own by name, and ranks speak by sockets (NCCL manual).
 */
static void
share_devices(char ***list, const struct rank_settings *settings, int index)
{
    if (settings->devices->nccl_version >= SHARES_GPUS_SINCE) {
        environment_set(list, "NCCL_MULTI_RANK_GPU_ENABLE", "1");
    } else {
        char *host = xasprintf("ddprun-%.64s-%d-%d", host_name(), (int)getpid(), index);
        environment_set(list, "NCCL_HOSTID", host);
        free(host);
    }
    bool one_host = settings->place.local_size == settings->place.world_size;
    if (one_host)
        set_default(list, "NCCL_SOCKET_IFNAME", "lo");
}

static void
set_devices(char ***list, const struct rank_settings *settings, int index)
{
    const struct device_plan *devices = settings->devices;
    set_or_unset(list, "CUDA_VISIBLE_DEVICES", devices->visible[index]);
    int ordinals = settings->options->one_device ? 1 : settings->place.first_local_rank + index + 1;
    environment_unset(*list, DDPRUN_ENV_DEVICES);
    if (ordinals > 1)
        set_number(list, DDPRUN_ENV_DEVICES, (unsigned)ordinals);
    if (devices->one_device_each)
        environment_set(list, "SOFTGPU_DEVICES", "1");
    if (devices->softgpu)
        prepend_library_folder(list, settings->installation->softgpu_lib);
    if (devices->share_gpu)
        share_devices(list, settings, index);
}

/* A network becomes the names of its interfaces. */
static void
set_interface(char ***list, const char *interface)
{
    char *names = strchr(interface, '/') != NULL ? network_interfaces(interface) : xstrdup(interface);
    if (names == NULL)
        return;
    char *exactly = xasprintf("=%s", names);
    set_default(list, "NCCL_SOCKET_IFNAME", exactly);
    free(exactly);
    free(names);
}

/*
 * How NCCL works in ranks, where the user has not said it (NCCL manual, "Environment Variables"). In a graph a bucket
 * may lie in registered memory on one rank only. With NVLS a call with registered memory, in NCCL 2.19 to 2.23 each
 * call, waits on the host for the other ranks of the host: a rank that sends at DDP_STEP may itself wait for this one.
 * Calls of the engine wait until they are done: NCCL_COMM_BLOCKING=0 would undo that.
 */
static void
set_nccl(char ***list, int version, const char *interface)
{
    set_default(list, "NCCL_RAS_ENABLE", "0"); /* its server listens in each rank; a report asks it where it is on */
    set_default(list, "NCCL_GRAPH_REGISTER", "0");
    set_default(list, "NCCL_LOCAL_REGISTER", "0");
    if (version >= NVLS_MEETS_SINCE && version < NVLS_MEETS_UNTIL)
        set_default(list, "NCCL_NVLS_ENABLE", "0");
    environment_set(list, "NCCL_COMM_BLOCKING", "1"); /* a file of NCCL's may have 0 */
    if (interface != NULL)
        set_interface(list, interface);
}

char **
environment_arguments(const struct rank_settings *settings, int index)
{
    const struct job_place *place = &settings->place;
    const struct places places = {.rank = place->first_rank + index,
                                  .local_rank = place->first_local_rank + index,
                                  .world_size = place->world_size};
    const struct options *options = settings->options;
    char **words = environment_copy(options->program);
    for (size_t i = 0; options->subst && words[i] != NULL; ++i) {
        free(words[i]);
        words[i] = substitute_text(options->program[i], &places);
    }
    const char *python = program_python(options->program[0]);
    if (python == NULL)
        return words;
    size_t bytes = (length_of(words) + 1) * sizeof(*words);
    words = xrealloc(words, bytes + sizeof(*words));
    memmove(words + 1, words, bytes);
    words[0] = xstrdup(python);
    return words;
}

/* Of the launcher's job, in which the supervisor is the process: the trainer would be it a second time. */
static bool
is_identity(const char *entry, const char *unused)
{
    static const char *const prefixes[] = {"PMIX_", "PMI_", "OMPI_", "PRTE_"};
    bool is = false;
    (void)unused;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); ++i)
        is = is || strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0;
    return is;
}

/* What programs for torchrun ask for besides, to meet at a place of their own. Ranks are numbered by host; where hosts
 * have unlike numbers of ranks, the number of a host does not follow from a rank's. */
static void
set_rendezvous(char ***list, const struct rank_settings *settings)
{
    const struct job_place *place = &settings->place;
    bool is_even = place->local_size > 0 && place->world_size % place->local_size == 0;
    if (is_even && environment_get(*list, "GROUP_RANK") == NULL)
        set_number(list, "GROUP_RANK", (unsigned)(place->first_rank / place->local_size));
    bool one_host = place->local_size == place->world_size;
    if (!one_host || settings->free_port == 0 || environment_get(*list, "MASTER_ADDR") != NULL ||
        environment_get(*list, "MASTER_PORT") != NULL)
        return;
    environment_set(list, "MASTER_ADDR", "127.0.0.1");
    set_number(list, "MASTER_PORT", settings->free_port);
}

static void
set_place(char ***list, const struct rank_settings *settings, int index)
{
    const struct job_place *place = &settings->place;
    set_number(list, DDPRUN_ENV_RANK, (unsigned)(place->first_rank + index));
    set_number(list, DDPRUN_ENV_WORLD_SIZE, (unsigned)place->world_size);
    set_number(list, DDPRUN_ENV_LOCAL_RANK, (unsigned)(place->first_local_rank + index));
    set_number(list, DDPRUN_ENV_LOCAL_WORLD_SIZE, (unsigned)place->local_size);
    set_number(list, DDPRUN_ENV_STATUS_COUNT, (unsigned)place->rank_count);
    set_number(list, DDPRUN_ENV_STATUS_INDEX, (unsigned)index);
    environment_unset(*list, DDPRUN_ENV_RESERVE); /* of a ddprun around this one */
    if (settings->options->reserve_bytes > 0 && place->world_size > 1)
        set_number(list, DDPRUN_ENV_RESERVE, (unsigned)((settings->options->reserve_bytes + MIB - 1) / MIB));
    char *path = xasprintf("%s/" SUPERVISOR_SOCKET_NAME, settings->job_dir);
    environment_set(list, DDPRUN_ENV_SUPERVISOR, path);
    free(path);
}

/* OpenMP would start a thread for each processor of the host, in each of its ranks. */
static void
set_threads(char ***list, const struct rank_place *place)
{
    if (place->share > 0 && environment_get(*list, "OMP_NUM_THREADS") == NULL)
        set_number(list, "OMP_NUM_THREADS", (unsigned)place->share);
}

char **
environment_for_rank(char *const *inherited, const struct rank_settings *settings, int index)
{
    char **list = environment_copy(inherited);

    if (environment_get(list, "PMIX_RANK") != NULL)
        leave_out(list, is_identity, NULL);
    /* The runtime of AddressSanitizer ends a program into which another library was loaded before it. */
    if (settings->program != NULL && settings->program->sanitizer[0] != '\0')
        add_preload(&list, settings->program->sanitizer, PRELOAD_FIRST);
    add_preload(&list, settings->installation->shim, PRELOAD_LAST);
    if (settings->placement != NULL && settings->placement->ranks != NULL)
        set_threads(&list, &settings->placement->ranks[index]);
    set_devices(&list, settings, index);

    set_number(&list, DDPRUN_ENV_PROTOCOL, DDPRUN_PROTOCOL_VERSION);
    environment_set(&list, DDPRUN_ENV_JOB_DIR, settings->job_dir);
    environment_set(&list, DDPRUN_ENV_ENGINE, settings->installation->engine);
    if (settings->equipment != NULL)
        settings->equipment->choose(settings, &list);
    set_nccl(&list, settings->devices->nccl_version, settings->options->interface);
    set_place(&list, settings, index);
    set_rendezvous(&list, settings);
    environment_unset(list, DDPRUN_ENV_MEMBER); /* this process's own */
    return list;
}

/* ---- what lies next to the launcher ---- */

/* "<prefix>/bin/ddprun" gives "<prefix>"; a new string or NULL. */
static char *
own_prefix(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    for (int i = 0; i < 2; ++i) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return NULL;
        *slash = '\0';
    }
    return xstrdup(path);
}

/* Installed in <prefix>/lib/ddprun, which no loader searches; built in <prefix>/lib. */
static char *
find_library(const char *prefix, const char *name)
{
    char *installed = xasprintf("%s/lib/ddprun/%s", prefix, name);
    if (access(installed, F_OK) == 0)
        return installed;
    free(installed);
    return xasprintf("%s/lib/%s", prefix, name);
}

char *
installation_library(const char *name)
{
    char *prefix = own_prefix();
    char *path = prefix != NULL ? find_library(prefix, name) : xstrdup(name);
    free(prefix);
    return path;
}

bool
installation_check(const char *path, const char *what, struct error *error)
{
    if (access(path, R_OK) != 0)
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s is missing: %s: %s; build or install ddprun again, keeping bin/ and lib/ side by side",
                         what, path, strerror(errno));
    /* LD_PRELOAD is split at blanks and ':', LD_LIBRARY_PATH at ':' and ';', and neither has a way to quote (ld.so(8)).
     */
    if (strpbrk(path, " \t\n:;") != NULL)
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s lies in a folder with a blank, ':' or ';' in its name, which LD_PRELOAD and "
                         "LD_LIBRARY_PATH cannot hold: %s; move ddprun to another folder",
                         what, path);
    return true;
}

/* A tarball and a wheel have none; the package ddprun-softgpu does. */
static bool
check_stand_in(const char *path, struct error *error)
{
    return access(path, R_OK) == 0 ||
           error_set(
               error, DDPRUN_EXIT_NOT_RUN,
               "this ddprun has no stand-in (softgpu): %s: %s; tarballs and wheels have none: take the ddprun of "
               "the build (build/bin/ddprun) or the package ddprun-softgpu, or a program that is linked for a GPU",
               path, strerror(errno));
}

bool
installation_find(bool softgpu, struct installation *found_p, struct error *error)
{
    char *prefix = own_prefix();
    if (prefix == NULL)
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "cannot tell where ddprun is installed: /proc/self/exe: %s; mount /proc", strerror(errno));
    struct installation found = {
        .shim = find_library(prefix, "libddprun.so"),
        .engine = find_library(prefix, "libddprun-engine.so"),
        .softgpu_lib = xasprintf("%s/lib/softgpu", prefix),
        .kernels = find_library(prefix, softgpu ? "softgpu/libddprun-kernels.so" : "ddprun-kernels.fatbin"),
    };
    if (access(found.kernels, R_OK) != 0) { /* buckets are then packed by copies */
        free(found.kernels);
        found.kernels = NULL;
    }
    free(prefix);
    if (installation_check(found.shim, "the library that ddprun preloads", error) &&
        installation_check(found.engine, "the engine of ddprun", error) &&
        (!softgpu || check_stand_in(found.softgpu_lib, error))) {
        *found_p = found;
        return true;
    }
    installation_free(&found);
    return false;
}

void
installation_free(struct installation *installation)
{
    free(installation->shim);
    free(installation->engine);
    free(installation->softgpu_lib);
    free(installation->kernels);
    *installation = (struct installation){0};
}
