/*
 * devices.c - which devices a program sees.
 *
 * The launcher leaves each rank one GPU in CUDA_VISIBLE_DEVICES. Trainers of torchrun and MPI call
 * cudaSetDevice(LOCAL_RANK), and expect more devices than that number. So a rank with local rank L is shown L + 1
 * devices, and all of them are its GPU. CUdevice is the number of the device in all of CUDA's drivers, so a row of
 * devices.def changes numbers only.
 *
 * A program that works on two of them splits its work among devices that are one, differently on each rank: it is
 * ended. Contexts do not say which number they are of, because all numbers have the same primary context; a thread's
 * number is the one whose context it has made or retained last. A thread that only asks, or that allocates memory of
 * the host, may have any number: many loader threads call no cudaSetDevice and have device 0.
 *
 * A program that sets CUDA_VISIBLE_DEVICES itself and sees several GPUs sees these, and no others.
 */
#include "interpose/shim/devices.h"

#include "interpose/shim/shim.h"

#include <unistd.h>

/* How many of the program's numbers lead to the GPU; 0: not known yet. */
static _Atomic int shown;

/* The number that the process works on, plus one; 0: on none yet. */
static _Atomic int worked_on;

/* Of this thread. Numbers plus one; 0: none. */
static __thread struct {
    int chosen; /* the last one that it has a context of */
    int other;  /* one that it had a context of before */
    bool works; /* it has allocated memory of the device, or launched */
} mine __attribute__((tls_model("initial-exec")));

int
devices_asked_for(void)
{
    static _Atomic int answer; /* 0: not asked yet */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == 0) {
        int wanted = shim_in_job() ? shim_number_from(DDPRUN_ENV_DEVICES) : 1;
        known = wanted > 1 ? wanted : 1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known;
}

/* 1 until cuInit has succeeded. */
static int
shown_count(void)
{
    int known = atomic_load_explicit(&shown, memory_order_relaxed), there = 0;
    if (devices_asked_for() == 1)
        return 1;
    if (known != 0)
        return known;
    void *real = atomic_load(&shim_routes[ROUTE_cuDeviceGetCount].real);
    if (((__typeof__(&cuDeviceGetCount))real)(&there) != CUDA_SUCCESS)
        return 1;
    known = there == 1 ? devices_asked_for() : 1;
    atomic_store_explicit(&shown, known, memory_order_relaxed);
    return known;
}

bool
devices_are_several(void)
{
    return shown_count() > 1;
}

static bool
is_shown(int device)
{
    return device >= 0 && device < shown_count();
}

int
devices_of_driver(int device)
{
    return is_shown(device) ? 0 : device;
}

CUmemLocation
devices_location(CUmemLocation location)
{
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        location.id = devices_of_driver(location.id);
    return location;
}

const CUmemAccessDesc *
devices_access_list(const CUmemAccessDesc *list, size_t count, CUmemAccessDesc *room)
{
    if (!devices_are_several() || list == NULL || count > DEVICES_ACCESS_MOST)
        return list;
    for (size_t i = 0; i < count; ++i) {
        room[i] = list[i];
        room[i].location = devices_location(list[i].location);
    }
    return room;
}

bool
devices_are_one(int device, int peer)
{
    return device != peer && is_shown(device) && is_shown(peer);
}

/* ---- answers ---- */

/* Where the driver says device 0: the one that this thread works on, or the process does. */
static int
own_number(void)
{
    int number = mine.chosen != 0 ? mine.chosen : atomic_load(&worked_on);
    return number != 0 ? number - 1 : 0;
}

void
devices_answer(int *device, bool done)
{
    if (done && devices_are_several() && *device == 0)
        *device = own_number();
}

void
devices_answer_count(int *count, bool done)
{
    if (done && devices_are_several())
        *count = shown_count();
}

void
devices_answer_get(int *device, int asked, bool done)
{
    if (done && devices_are_several())
        *device = asked;
}

void
devices_answer_attribute(void *data, CUpointer_attribute which, bool done)
{
    if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        devices_answer(data, done);
}

void
devices_answer_attributes(unsigned count, const CUpointer_attribute *which, void **data, bool done)
{
    if (!done || !devices_are_several())
        return;
    for (unsigned i = 0; i < count; ++i)
        devices_answer_attribute(data[i], which[i], done);
}

CUresult
devices_answer_pair(int *value, bool are_one, CUresult result)
{
    if (!are_one || value == NULL)
        return result;
    *value = 0;
    return CUDA_SUCCESS;
}

/* ---- is it one that the program works on? ---- */

static void __attribute__((noreturn)) refuse(int first, int second)
{
    shim_stop(
        "rank %d (process %d) uses devices %d and %d of the %d that it counts, and all are its one GPU: use the one "
        "device LOCAL_RANK, or add --one-device",
        shim_number_from(DDPRUN_ENV_RANK), (int)getpid(), first - 1, second - 1, shown_count());
}

static bool
is_rank(void)
{
    return atomic_load_explicit(&shim.mode, memory_order_acquire) != SHIM_PASSIVE;
}

void
devices_chosen(int device, bool done)
{
    if (!done || !devices_are_several())
        return;
    if (mine.chosen != 0 && mine.chosen != device + 1)
        mine.other = mine.chosen;
    mine.chosen = device + 1;
    if (mine.other != 0 && mine.works && is_rank())
        refuse(mine.other, mine.chosen);
}

void
devices_work(void)
{
    if (mine.chosen == 0 || !is_rank() || !devices_are_several())
        return;
    if (mine.other != 0)
        refuse(mine.other, mine.chosen);
    int number = 0;
    mine.works = true;
    if (!atomic_compare_exchange_strong(&worked_on, &number, mine.chosen) && number != mine.chosen)
        refuse(number, mine.chosen);
}
