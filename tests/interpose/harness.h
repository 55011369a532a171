/*
 * harness.h - a test program that becomes a rank of its own, with the fake engine and one of two drivers.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_HARNESS_H
#define DDPRUN_TESTS_INTERPOSE_HARNESS_H

#include "fake_driver.h"
#include "fake_engine.h"

typedef CUresult (*get_proc_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* Which of the drivers is found as libcuda.so.1. */
enum harness_driver { HARNESS_FAKE_DRIVER, HARNESS_STAND_IN };

/* rank_job_run() (rank_job.h) with the fake engine and this driver. */
int harness_run(int argc, char **argv, enum harness_driver driver, int (*passive)(void), int (*in_job)(void));

/* The driver, and what the tests see of the fake one. */
extern void *driver;
extern get_proc_fn get_proc;
extern unsigned long (*driver_calls)(const char *symbol);
extern struct fake_driver *fake;

/* Opens the driver. False after a line on stderr. */
bool harness_open(void);

/* The engine's record; NULL until this process is the rank. */
struct fake_record *harness_record(void);
extern struct fake_record *record; /* as it was when the tests began */

/* Opens the driver, makes this process the rank by an allocation, and runs the tests. Returns an exit status. */
int harness_run_as_rank(void);

/* What the driver answers through the shim: that it has the function. */
void *harness_look_up(const char *name, int version, cuuint64_t flags);

/* The name by which the shim exports the function at `address`; NULL if it is not one of the shim's. */
const char *harness_hook_name(const void *address);

/* How often this thread has allocated memory so far: the harness stands in front of malloc. */
unsigned long harness_allocations(void);

/* Whether `address` is in the shim. */
bool harness_is_in_shim(const void *address);

#endif
