/*
 * blas_threads.c - see blas_threads.h.
 */
#include "cublas/blas_threads.h"

#include "library/driver.h"

#include <cblas.h>
#include <pthread.h>
#include <stdlib.h>

static bool blas_threads_are_set; /* written inside the once */

static void
set_blas_threads(void)
{
    const char *text = getenv("SOFTGPU_BLAS_THREADS");
    long threads = 1;
    if (text && *text) {
        char *end;
        threads = strtol(text, &end, 10);
        if (*end != '\0' || threads < 1 || threads > 1024) {
            softgpu_line("SOFTGPU_BLAS_THREADS=%s is malformed: give the number of threads, 1 to 1024", text);
            return;
        }
    }
    openblas_set_num_threads((int)threads);
    blas_threads_are_set = true;
}

bool
blas_threads_set(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_blas_threads);
    return blas_threads_are_set;
}
