/*
 * trainer.h - what the trainers of all tests share: calls that must succeed. Includes nothing of the product, so that a
 * trainer that includes it is still one as users write them.
 */
#ifndef DDPRUN_TESTS_TRAINER_H
#define DDPRUN_TESTS_TRAINER_H

#include <stdio.h>
#include <stdlib.h>

/*
 * These end the program, with exit code 1 and a line on stderr, unless `call` returns 0, which is success of CUDA's
 * runtime, its driver, its libraries and of pthreads, and unless `condition` holds.
 */
#define CHECK(call)        check_error((int)(call), #call, __FILE__, __LINE__)
#define REQUIRE(condition) ((condition) ? (void)0 : check_error(-1, #condition, __FILE__, __LINE__))

static inline void
check_error(int error, const char *call, const char *file, int line)
{
    if (error != 0) {
        fprintf(stderr, "%s:%d: %s: error %d\n", file, line, call, error);
        exit(1);
    }
}

#endif
