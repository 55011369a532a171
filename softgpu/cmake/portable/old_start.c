/*
 * old_start.c - how a program starts with the glibc before 2.34: it calls its own constructors, and the C library a
 * function of the program that does so. Since 2.34 the library calls them if it is not handed such a function, and
 * the start files of this machine's compiler hand it none. Linked into programs that old_glibc.sh's folder links.
 */
#if defined(__x86_64__)
#define FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_GLIBC "GLIBC_2.17"
#else
#error "the first glibc of this architecture is not known here: add its symbol version"
#endif

typedef void constructor(int argc, char **argv, char **environment);
typedef int start(int (*program)(int, char **, char **), int argc, char **argv, constructor *construct,
                  void (*destruct)(void), void (*end_of_loader)(void), void *stack);

/* The linker's names for the program's tables, and for the function that is made of its sections .init. */
extern constructor *const __preinit_array_start[], *const __preinit_array_end[];
extern constructor *const __init_array_start[], *const __init_array_end[];
extern void _init(void);

extern start libc_start;
__asm__(".symver libc_start, __libc_start_main@" FIRST_GLIBC);
start __libc_start_main;

static void
construct_all(int argc, char **argv, char **environment)
{
    for (constructor *const *next = __preinit_array_start; next < __preinit_array_end; ++next)
        (*next)(argc, argv, environment);
    _init();
    for (constructor *const *next = __init_array_start; next < __init_array_end; ++next)
        (*next)(argc, argv, environment);
}

/* Called by the start files. The loader calls the destructors. */
int
__libc_start_main(int (*program)(int, char **, char **), int argc, char **argv, constructor *construct,
                  void (*destruct)(void), void (*end_of_loader)(void), void *stack)
{
    (void)construct;
    return libc_start(program, argc, argv, construct_all, destruct, end_of_loader, stack);
}
