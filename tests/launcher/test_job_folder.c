/*
 * test_job_folder.c - a job's folder is private and goes away; those of killed launchers are cleared, those in use are
 * not.
 */
#include "launcher/start/job_folder.h"

#include "base/status_page.h"
#include "launcher/common/network.h"
#include "tests/lib/test.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

static char place[] = "/tmp/test-job-folder-XXXXXX";

static bool
exists(const char *path)
{
    struct stat file;
    return lstat(path, &file) == 0;
}

static void
fill(const char *folder)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/inner", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/inner/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof(path), "%s/link", folder);
    ck_assert_int_eq(symlink(place, path), 0);
}

static struct job_folder folder;

TEST(a_folder_is_private_and_goes_away)
{
    struct error error;
    ck_assert(job_folder_make(&folder, &error));
    struct stat made;
    ck_assert_int_eq(stat(folder.path, &made), 0);
    ck_assert_int_eq(made.st_mode & 07777, 0700);
    ck_assert_int_eq(strncmp(folder.path, place, strlen(place)), 0);

    char path[512];
    snprintf(path, sizeof(path), "%s", folder.path);
    fill(path);
    job_folder_remove(&folder);
    ck_assert(!exists(path));
    ck_assert(exists(place)); /* the link in it was not followed */
    job_folder_remove(&folder);
}

TEST(folders_in_use_stay_abandoned_ones_go)
{
    struct job_folder used, second;
    struct error error;
    ck_assert(job_folder_make(&used, &error));
    char abandoned[512], named_alike[512], link[512];
    snprintf(abandoned, sizeof(abandoned), "%s/ddprun-%lu-%s-abcdef", place, (unsigned long)geteuid(), host_name());
    snprintf(named_alike, sizeof(named_alike), "%s/ddprun-%lu-%s-abcdef-kept", place, (unsigned long)geteuid(),
             host_name());
    snprintf(link, sizeof(link), "%s/ddprun-%lu-%s-ghijkl", place, (unsigned long)geteuid(), host_name());
    ck_assert_int_eq(mkdir(abandoned, 0700), 0);
    ck_assert_int_eq(mkdir(named_alike, 0700), 0);
    fill(abandoned);
    ck_assert_int_eq(symlink(named_alike, link), 0);

    ck_assert(job_folder_make(&second, &error));
    ck_assert(!exists(abandoned));
    ck_assert(exists(used.path));
    ck_assert(exists(named_alike));
    ck_assert(exists(link));
    job_folder_remove(&used);
    job_folder_remove(&second);
    unlink(link);
    rmdir(named_alike);
}

/* Makes a job's folder with XDG_RUNTIME_DIR set to `runtime`, and says whether it is in there. */
static bool
is_made_in(const char *runtime)
{
    struct error error;
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    ck_assert_msg(job_folder_make(&folder, &error), "%s", error.text);
    unsetenv("XDG_RUNTIME_DIR");
    bool inside = strncmp(folder.path, runtime, strlen(runtime)) == 0;
    ck_assert(inside || strncmp(folder.path, place, strlen(place)) == 0);
    job_folder_remove(&folder);
    return inside;
}

TEST(a_runtime_folder_is_used_if_it_is_the_user_s_own)
{
    char runtime[64], link[64], abandoned[512];
    snprintf(runtime, sizeof(runtime), "%s/runtime", place);
    snprintf(link, sizeof(link), "%s/linked", place);
    ck_assert_int_eq(mkdir(runtime, 0700), 0);
    ck_assert_int_eq(symlink("/tmp", link), 0);
    snprintf(abandoned, sizeof(abandoned), "%s/ddprun-%lu-%s-abcdef", runtime, (unsigned long)geteuid(), host_name());
    ck_assert_int_eq(mkdir(abandoned, 0700), 0);
    ck_assert(is_made_in(runtime));
    ck_assert(!exists(abandoned)); /* what killed launchers left goes from there, too */

    ck_assert(!is_made_in("/nowhere/at/all"));
    ck_assert(!is_made_in("runtime"));
    ck_assert(!is_made_in(link)); /* to a place that every user can write */
    ck_assert_int_eq(chmod(runtime, 0750), 0);
    ck_assert(!is_made_in(runtime)); /* others see into it */
    ck_assert_int_eq(chmod(runtime, 0700), 0);
    if (geteuid() == 0) { /* only root can give a folder away */
        ck_assert_int_eq(chown(runtime, 65534, 65534), 0);
        ck_assert(!is_made_in(runtime));
    }
    unlink(link);
    rmdir(runtime);
}

/* With TMPDIR set to `wanted`: the job folder is not below `top`. */
static bool
is_made_elsewhere(const char *wanted, const char *top)
{
    struct error error;
    setenv("TMPDIR", wanted, 1);
    ck_assert_msg(job_folder_make(&folder, &error), "%s", error.text);
    setenv("TMPDIR", place, 1);
    bool elsewhere = strncmp(folder.path, top, strlen(top)) != 0;
    job_folder_remove(&folder);
    return elsewhere;
}

TEST(where_others_could_exchange_it_no_folder_is_made)
{
    char open_folder[64], inner[80];
    snprintf(open_folder, sizeof(open_folder), "%s/open", place);
    snprintf(inner, sizeof(inner), "%s/inner", open_folder);
    ck_assert_int_eq(mkdir(open_folder, 0700), 0);
    ck_assert_int_eq(mkdir(inner, 0700), 0);
    ck_assert(!is_made_elsewhere(open_folder, open_folder));
    ck_assert_int_eq(chmod(open_folder, 0777), 0);
    ck_assert(is_made_elsewhere(open_folder, open_folder));
    ck_assert(is_made_elsewhere(inner, open_folder));
    ck_assert_int_eq(chmod(open_folder, 01777), 0);
    ck_assert(!is_made_elsewhere(open_folder, open_folder));
    ck_assert(!is_made_elsewhere(inner, open_folder));
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(open_folder, 65534, 0), 0); /* sticky: its owner may still rename */
        ck_assert(is_made_elsewhere(open_folder, open_folder));
        ck_assert_int_eq(chown(open_folder, 0, 65534), 0);
        ck_assert_int_eq(chmod(open_folder, 02770), 0); /* the folder of a project's group */
        ck_assert(is_made_elsewhere(inner, open_folder));
        ck_assert_int_eq(chown(open_folder, 0, 0), 0); /* of root's own group */
        ck_assert(!is_made_elsewhere(inner, open_folder));
    }
    rmdir(inner);
    rmdir(open_folder);
}

TEST(a_full_runtime_folder_is_left)
{
    char runtime[64];
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return; /* only root can mount */
    snprintf(runtime, sizeof(runtime), "%s/full", place);
    ck_assert_int_eq(mkdir(runtime, 0700), 0);
    ck_assert_int_eq(mount("none", runtime, "tmpfs", 0, "size=64k,mode=700"), 0);
    ck_assert(!is_made_in(runtime));
    ck_assert_int_eq(umount(runtime), 0);
    ck_assert_int_eq(mount("none", runtime, "tmpfs", 0, "size=8m,mode=700"), 0);
    ck_assert(is_made_in(runtime));
    ck_assert_int_eq(umount(runtime), 0);
    rmdir(runtime);
}

TEST(a_status_page_of_another_user_is_not_mapped)
{
    char page[80];
    if (geteuid() != 0)
        return;
    snprintf(page, sizeof(page), "%s/" DDPRUN_STATUS_FILE, place);
    void *made = status_page_map(place, 1, true);
    ck_assert_ptr_nonnull(made);
    status_page_unmap(made, 1);
    ck_assert_int_eq(chmod(place, 0755), 0);
    ck_assert_int_eq(chmod(page, 0666), 0);
    ck_assert_int_eq(seteuid(65534), 0);
    made = status_page_map(place, 1, false);
    int cause = errno;
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_ptr_null(made);
    ck_assert_int_eq(cause, EPERM);
    ck_assert_int_eq(chown(page, 65534, 0), 0);
    ck_assert_int_eq(seteuid(65534), 0);
    made = status_page_map(place, 1, false);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_ptr_nonnull(made);
    status_page_unmap(made, 1);
    ck_assert_int_eq(chmod(place, 0700), 0);
    unlink(page);
}

TEST(prepared_names_are_not_followed)
{
    /* A user who guesses the name cannot make ddprun work in a folder, or through a link, of that user. */
    char theirs[64], link[512], kept[80];
    snprintf(theirs, sizeof(theirs), "%s/theirs", place);
    snprintf(kept, sizeof(kept), "%s/kept", theirs);
    snprintf(link, sizeof(link), "%s/ddprun-%lu-%s-AAAAAA", place, (unsigned long)geteuid(), host_name());
    ck_assert_int_eq(mkdir(theirs, 0700), 0);
    close(open(kept, O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(symlink(theirs, link), 0);
    struct error error;
    ck_assert(job_folder_make(&folder, &error));
    ck_assert_str_ne(folder.path, link);
    ck_assert(exists(kept)); /* not swept through the link */
    job_folder_remove(&folder);
    if (geteuid() == 0) { /* a folder of another user under ddprun's name is left alone */
        unlink(link);
        ck_assert_int_eq(mkdir(link, 0777), 0);
        ck_assert_int_eq(chown(link, 65534, 65534), 0);
        ck_assert(job_folder_make(&folder, &error));
        ck_assert(exists(link));
        job_folder_remove(&folder);
        rmdir(link);
    }
    unlink(link);
    unlink(kept);
    rmdir(theirs);
}

TEST(no_place_is_an_error)
{
    struct error error = {0};
    setenv("TMPDIR", "/nowhere/at/all", 1);
    ck_assert(!job_folder_make(&folder, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "/nowhere/at/all"));
    setenv("TMPDIR", place, 1);
}

TEST(a_place_that_is_no_folder_is_reported)
{
    struct error error = {0};
    char file[64];
    snprintf(file, sizeof(file), "%s/file", place);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(chmod(file, 0666), 0); /* that every user can write it says nothing about folders */
    setenv("TMPDIR", file, 1);
    ck_assert(!job_folder_make(&folder, &error));
    setenv("TMPDIR", place, 1);
    unlink(file);
    ck_assert_msg(strstr(error.text, file) != NULL && strstr(error.text, "is not a folder") != NULL, "%s", error.text);
    ck_assert_ptr_null(strstr(error.text, "sticky"));
}

TEST(without_descriptors_nothing_is_left_behind)
{
    struct error error = {0};
    struct rlimit usual, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(next, 0);
    close(next);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = usual.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool made = job_folder_make(&folder, &error);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
    ck_assert(!made);
    ck_assert_msg(strstr(error.text, "Too many open files; raise the limit of open files") != NULL, "%s", error.text);
    ck_assert_msg(rmdir(place) == 0, "%s is not empty", place);
    ck_assert_int_eq(mkdir(place, 0700), 0);
}

int
main(void)
{
    if (mkdtemp(place) == NULL)
        return EXIT_FAILURE;
    setenv("TMPDIR", place, 1);
    unsetenv("XDG_RUNTIME_DIR");

    int status = tests_run();
    rmdir(place);
    return status;
}
