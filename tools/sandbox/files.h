/*
 * files.h - the contract between ddprun and libddprun-files.so, a preload library with two jobs, each of which the
 * environment asks for: a run of `ddprun check` writes no file of the user's (FILES_ENV_DIR), and one of `ddprun scout`
 * notes which files the program uses (FILES_ENV_NOTES, notes.h). The rest is about the first.
 *
 * The library puts a copy-on-write overlay over the file system, for one tree of processes: a file that is opened for
 * writing is copied into a private folder first, and the copy is opened; what is created, renamed or removed is so in
 * the private folder only. The same processes see their own changes: a path leads to the copy, else to nothing if the
 * run has removed it, else to the real file. Children inherit the variables, and with them the overlay.
 *
 * The library never prints, never ends the process, and takes no lock. If the overlay itself fails, because its disk is
 * full, the call of the program fails with that errno. A hook needs up to 56 KiB of stack.
 *
 * For what is not redirected, and what the overlay does not cover, see docs/check.md, "Files that the program
 * writes". Beside that:
 *  - FILES_ENV_EXCEPT and the private folder are not redirected.
 *  - Paths through /proc/self/fd/N/, /proc/self/cwd/ and /proc/self/root/ lead to real directories.
 *  - A copy has the mode, the times and where possible the owner of its file. Links made in the run are true links.
 *  - Renaming between an excepted path and another: EXDEV, as between file systems; programs then copy.
 *  - renameat2() with RENAME_EXCHANGE: EINVAL, as where a file system cannot do it.
 *
 * A process that writes the user's files itself can keep its changes from overlays of other processes
 * (FILES_ENV_OTHERS).
 */
#ifndef DDPRUN_TOOLS_SANDBOX_FILES_H
#define DDPRUN_TOOLS_SANDBOX_FILES_H

#include <stddef.h>
#include <stdint.h>

/* The private folder of a tree of processes: an absolute path of at most 1000 bytes, existing, mode 0700. Absent or
 * empty: nothing is redirected. Two processes that share the folder share the overlay. */
#define FILES_ENV_DIR "_DDPRUN_FILES_DIR"

/* Absolute paths that are never redirected, with everything below them, separated by colons: at most 100 of 32 KiB in
 * all. Symbolic links in them are resolved when the process starts. "/" alone: nothing is redirected, and the folder is
 * there for FILES_ENV_DATE only. */
#define FILES_ENV_EXCEPT "_DDPRUN_FILES_EXCEPT"

/*
 * Private folders of other processes, absolute, separated by colons: at most 32 KiB; absent or empty: there are none.
 * This process and its children write the user's files, whatever FILES_ENV_DIR is. The processes of those folders see
 * files as they were before: an entry that this process makes is hidden there, and a file that it removes, renames or
 * opens for writing is copied there first, unless the copies of one process are larger than FILES_KEPT_BYTES.
 * FILES_WRITTEN exists in those folders when their processes start.
 *
 * Not kept: temporary files with a name of libc's, modes, owners, times and attributes; what a program writes that does
 * not load this library.
 */
#define FILES_ENV_OTHERS "_DDPRUN_FILES_OTHERS"

#define FILES_KEPT_BYTES ((uint64_t)1 << 30)

/*
 * "START AHEAD", or "START AHEAD STANDS", decimal numbers; absent or empty, or without FILES_ENV_DIR: clocks and random
 * bytes are the system's. Calls of the program itself, and of libraries beside it, then see a date of their own, as
 * does what libc++ and libstdc++ ask for them: the i-th reading of a process is START + i microseconds, with AHEAD
 * times the rank times FILES_AHEAD_US added, until the steps begin (ddprun_files_steps_begin()), or until it has read
 * it too often for that, in a loop that waits for something. From then on it runs as clocks do. If STANDS is not 0, the
 * steps do not begin it. A wait until a date ends when the program's date is reached, and the date is then that; so it
 * is after the second sleep in a loop that reads the date. Random bytes are the same in each process with one START,
 * and AHEAD times the rank more each.
 *
 * Not covered: clocks other than the date; rdrand and rdseed, which a static libstdc++ asks for std::random_device;
 * timers; pthread_rwlock_timed...(), mq_timed...(), futures that wait until a date. What the program opens as
 * /dev/urandom ends after FILES_RANDOM_BYTES.
 */
#define FILES_ENV_DATE "_DDPRUN_FILES_DATE"

#define FILES_AHEAD_US     INT64_C(90061000007) /* a day, an hour, a minute, a second and 7 us */
#define FILES_RANDOM_BYTES ((size_t)4 << 20)

/*
 * In the private folder: the places that have read the date or random bytes. A line each: where the call returns to,
 * hexadecimal, as the object's program headers count, and after commas where the calls around it in the same object
 * return to, innermost first; the call; the object's path. Absent: there are none.
 */
#define FILES_READINGS "readings"

/* The program's first step: its date runs from now on. Any thread. For the engine, which is loaded later, and in
 * processes without this library. */
void ddprun_files_steps_begin(void) __attribute__((weak, visibility("default")));

/* Where the program has read the date last since its steps began: the address that the call returns to, in the program
 * or in a library that reads it for the program. NULL: it has not. Any thread. Present as the function above is. */
const void *ddprun_files_date_reader(void) __attribute__((weak, visibility("default")));

/* Present: files are noted. */
#define FILES_ENV_NOTES "_DDPRUN_FILES_NOTES"

/*
 * What the private folder holds. None of them exists before the first write.
 *
 * FILES_WRITTEN/PATH is the file, directory or link that the run sees at the absolute path PATH, symbolic links
 * resolved. A directory of the user's that something was written below is there too, and holds what was written.
 * FILES_REMOVED/PATH is an empty regular file where the run has removed or replaced what is really at PATH; it hides
 * all that is really below PATH, too. FILES_COPIES holds copies that are being made,
 * and marks that one mark has replaced.
 */
#define FILES_WRITTEN "written"
#define FILES_REMOVED "removed"
#define FILES_COPIES  "copies"

#endif
