/*
 * main.c - softgpu-cc: compiles CUDA C++ for the CPU stand-in, in nvcc's place on a command line.
 *
 * Exit status: 0; 2 for a command line that cannot be honoured; else that of the step that failed.
 */
#include "driver.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>

/* Build systems look for "release X.Y" and "VX.Y.Z" here. */
static int
show_version(void)
{
    printf("softgpu-cc: CUDA C++ compiler driver of the CPU stand-in for CUDA, version " SOFTGPU_VERSION "\n"
           "Cuda compilation tools, release 13.0, V13.0.88\n");
    return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
    /* Static: they last as long as the program. */
    static struct options options;
    static struct toolchain toolchain;
    struct list arguments = {0};
    for (int i = 1; i < argc; ++i)
        list_add(&arguments, argv[i]);

    process_begin();
    const bool ok = options_read(&options, &arguments);
    list_free(&arguments);
    if (!ok)
        return 2;
    if (options.phase == PHASE_VERSION)
        return show_version();
    if (options.phase == PHASE_HELP) {
        options_help();
        return EXIT_SUCCESS;
    }
    if (!toolchain_find(&toolchain, options.compiler))
        return 2;
    const int status = driver_run(&options, &toolchain);
    process_end();
    return status;
}
