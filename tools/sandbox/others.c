/*
 * others.c - what this process changes among the user's files is kept from other processes: in their private folders,
 * before each change, their overlays get what they would no longer see. Rank 0 of a plan writes the user's files, and
 * the other ranks of its host are those others.
 *
 * It is the overlay's own work, in the place of another process: as a second thread of that process would do it. So
 * what the other has changed itself is left as it is, and both may do it at the same time.
 */
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

/* A directory in the overlay, in the place of the real one, with the copies that lie there already. */
static int
keep_folder(const struct place *place)
{
    if (overlay_make_parents(place) != 0)
        return -1;
    if (raw_mkdir(place->copy, 0700) != 0 && errno != EEXIST)
        return -1;
    return (int)syscall(SYS_fchmodat, AT_FDCWD, place->copy, place->mode & 07777);
}

/* With files_config() of the other. What fails is not kept. */
static void
keep_place(struct place *place, unsigned kept)
{
    bool is_file = S_ISREG(place->mode) || S_ISLNK(place->mode);
    if (place->kind == PLACE_ABSENT && (kept & OTHERS_ABSENCE) != 0)
        (void)!overlay_mark_removed(place->path);
    if (place->kind != PLACE_REAL)
        return;
    if (is_file && (kept & OTHERS_FILE) != 0)
        (void)!overlay_copy_up(place, true);
    if (S_ISDIR(place->mode) && (kept & OTHERS_FOLDER) != 0)
        (void)!keep_folder(place);
    if (S_ISDIR(place->mode) && (kept & OTHERS_TREE) != 0)
        (void)!listing_copy_up(place);
}

void
others_keep(int dirfd, const char *path, enum place_follow follow, unsigned kept)
{
    const char *list = files_others();
    int saved = errno;
    while (*list != '\0') {
        struct files_config config;
        struct place place;
        char dir[FILES_DIR_MAX];
        size_t length = strcspn(list, ":");
        if (length < sizeof(dir)) {
            *(char *)mempcpy(dir, list, length) = '\0';
            if (files_stand_for(dir, &config) && place_resolve(dirfd, path, follow, &place) == 0)
                keep_place(&place, kept);
            (void)files_stand_for(NULL, NULL);
        }
        list += length + (list[length] == ':');
    }
    errno = saved;
}
