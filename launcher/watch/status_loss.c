/* status_loss.c - see status_loss.h. The handler calls mmap and sigaction only: both are system calls. */
#include "launcher/watch/status_loss.h"

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

static uintptr_t begin, end;
static volatile sig_atomic_t is_lost;

static bool
replace_by_zeros(void)
{
    return mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

static void
take_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    if (at >= begin && at < end && replace_by_zeros()) {
        is_lost = 1;
        return;
    }
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(number, &plain, NULL); /* the access comes again, and ends the process */
}

void
status_loss_watch(void *page, size_t bytes)
{
    struct sigaction action = {.sa_sigaction = take_bus_error, .sa_flags = SA_SIGINFO};
    begin = (uintptr_t)page;
    end = begin + bytes;
    is_lost = 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

bool
status_loss_found(void)
{
    return is_lost != 0;
}
