/*
 * devices.h - the devices that a rank sees, and the words of devices.def. Included by hooks.c, which has the rows.
 *
 * "The program's" number of a device is the one that cudaSetDevice and cuDeviceGet take; "the driver's" is the one that
 * the driver knows. They differ only in a rank whose local rank is not 0, and that sees one GPU (devices.c).
 */
#ifndef DDPRUN_INTERPOSE_SHIM_DEVICES_H
#define DDPRUN_INTERPOSE_SHIM_DEVICES_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* How many devices the launcher has this process see; 1 outside of a job. Asks no driver. */
int devices_asked_for(void);

/* Whether several of the program's numbers lead to the rank's GPU. False before cuInit. */
bool devices_are_several(void);

/* The driver's number of a device of the program's. A number that the program was not shown stays as it is. */
int devices_of_driver(int device);
CUmemLocation devices_location(CUmemLocation location);

/* The most devices that memory is opened to at once; a longer list stays as it is. */
enum { DEVICES_ACCESS_MOST = 64 };

/* `list` as the driver needs it, in `room` if it differs. */
const CUmemAccessDesc *devices_access_list(const CUmemAccessDesc *list, size_t count, CUmemAccessDesc *room);

/* Two numbers of the program's, and one GPU: the driver refuses to compare it with itself. */
bool devices_are_one(int device, int peer);

/* Answers of the driver's become the program's; `done`: whether the driver has given one. Outputs may be NULL. */
void devices_answer(int *device, bool done);
void devices_answer_count(int *count, bool done);
void devices_answer_get(int *device, int asked, bool done);
void devices_answer_attribute(void *data, CUpointer_attribute which, bool done);
void devices_answer_attributes(unsigned count, const CUpointer_attribute *which, void **data, bool done);

/* Of a question about two devices: devices that are one GPU have nothing between them. Returns the call's result. */
CUresult devices_answer_pair(int *value, bool are_one, CUresult result);

/* This thread has a context of the device from now on. Ends a rank that has worked on another number. */
void devices_chosen(int device, bool done);

/* This thread allocates memory of its device, or launches there. Ends a rank that uses two of its numbers. */
void devices_work(void);

/* ---- words of devices.def, for the arguments of a call ---- */

#define to_driver(device)            ((device) = devices_of_driver(device))
#define location_to_driver(location) ((location) = devices_location(location))

/* Of a struct that has a location. */
#define copy_to_driver(type, properties)                \
    type properties##_copy;                             \
    if (devices_are_several() && properties != NULL) {  \
        properties##_copy = *properties;                \
        location_to_driver(properties##_copy.location); \
        properties = &properties##_copy;                \
    }

#define list_to_driver(list, count)                   \
    CUmemAccessDesc list##_room[DEVICES_ACCESS_MOST]; \
    list = devices_access_list(list, count, list##_room)

#endif
