/*
 * main.cpp - the program around train(), in plain C++ without a header of CUDA's. The build chooses what else it does:
 * WITH_MPI, WITH_SECOND (a second trainer, in a shared library that it is linked with), WITH_PLUGIN (the trainer is in
 * the shared library that the first argument names, loaded twice).
 */
#include "trainer.h"

#include <cstdio>
#ifdef WITH_MPI
#include <mpi.h>
#endif
#ifdef WITH_PLUGIN
#include <dlfcn.h>
#endif

static int
report(int (*trainer)(float *))
{
    float first = 0.0f;
    const int error = trainer(&first);
    std::printf("error %d, weight %.4f\n", error, static_cast<double>(first));
    return error;
}

#ifdef WITH_PLUGIN
static int
run(char **argv)
{
    int error = 0;
    for (int i = 0; i < 2; ++i) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        void *found = library != nullptr ? dlsym(library, "second") : nullptr;
        if (found == nullptr) {
            std::printf("%s\n", dlerror());
            return 1;
        }
        error |= report(reinterpret_cast<int (*)(float *)>(found));
        dlclose(library);
    }
    return error;
}
#else
static int
run(char **)
{
#ifdef WITH_SECOND
    if (report(second) != 0)
        return 1;
#endif
    return report(train);
}
#endif

int
main(int argc, char **argv)
{
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
#else
    (void)argc;
#endif
    const int error = run(argv);
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return error;
}
