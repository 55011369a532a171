/*
 * main.c - softgpu-cc: compiles CUDA C++ for the CPU stand-in, in nvcc's place on a command line.
 *
 * Called softgpu-link (lib/softgpu/toolkit/bin), it only links, and takes the host compiler's options as a host
 * compiler does: build systems link with the program that they see in `softgpu-cc -v`.
 *
 * Exit status: 0; 2 for a command line that cannot be honoured; else that of the step that failed.
 */
#include "driver.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Build systems look for "release X.Y", "VX.Y.Z" and the whole second line here. */
static int
show_version(void)
{
    printf("softgpu-cc " SOFTGPU_VERSION ": compiles CUDA C++ for the CPU stand-in for CUDA, in the place of\n"
           "nvcc: NVIDIA (R) Cuda compiler driver\n"
           "Cuda compilation tools, release 13.0, V13.0.88\n");
    return EXIT_SUCCESS;
}

/* Those of nvcc 13.0, one in a line. */
static int
show_architectures(const char *prefix)
{
    static const int numbers[] = {75, 80, 86, 87, 88, 89, 90, 100, 110, 103, 120, 121};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
        printf("%s_%d\n", prefix, numbers[i]);
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

    const char *slash = strrchr(argv[0], '/');
    options.is_linker = strcmp(slash != NULL ? slash + 1 : argv[0], "softgpu-link") == 0;
    process_begin();
    const bool ok = options_read(&options, &arguments);
    list_free(&arguments);
    if (!ok)
        return 2;
    if (options.phase == PHASE_VERSION)
        return show_version();
    if (options.phase == PHASE_ARCHITECTURES)
        return show_architectures(options.architecture_prefix);
    if (options.phase == PHASE_HELP) {
        options_help();
        return EXIT_SUCCESS;
    }
    const bool has_folder = options.module_folder == NULL || process_adopt(options.module_folder);
    const int status =
        has_folder && toolchain_find(&toolchain, options.compiler) ? driver_run(&options, &toolchain) : 2;
    process_end();
    return status;
}
