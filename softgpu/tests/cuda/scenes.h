/*
 * scenes.h - tests that look at a whole process: the test program runs itself again as a child with the name of a
 * scene, and looks at how it ended and what it said on stderr. A child that does not end within its deadline is killed
 * and fails the test.
 */
#ifndef TESTS_SOFTGPU_CUDA_SCENES_H
#define TESTS_SOFTGPU_CUDA_SCENES_H

enum { OUTPUT_BYTES = 4096 };

struct scene {
    const char *name;
    int (*run)(void);
    const struct scene *next;
};

void scene_add(struct scene *scene);

/* SCENE(name) { ... } is a scene, and returns the child's exit code. */
#define SCENE(scene_name)                                                             \
    static int scene_##scene_name(void);                                              \
    __attribute__((constructor)) static void add_##scene_name(void)                   \
    {                                                                                 \
        static struct scene scene = {.name = #scene_name, .run = scene_##scene_name}; \
        scene_add(&scene);                                                            \
    }                                                                                 \
    static int scene_##scene_name(void)

/* In the child: what main() returns for the scene of that name; 99 if no scene has that name. */
int play_scene(const char *name);

/*
 * Runs a scene with `settings` (NAME=value, ended by NULL; or NULL) added to the environment. Returns its wait status;
 * `output`, of OUTPUT_BYTES, gets the beginning of its stderr.
 */
int run_scene(const char *name, const char *const settings[], char *output);

/* A row of a test: a scene, settings that end with NULL, how it must end, and what it must say. */
struct scene_row {
    const char *scene, *settings[3];
    enum {
        FINE,  /* with 0, and the stand-in says nothing */
        SAYS,  /* with 0 */
        FAILS, /* with another exit code */
        DIES   /* by SIGSEGV, or by a sanitizer's handler of it; without words of the stand-in where none are named */
    } ending;
    const char *said[8];
};
void expect_scene(const struct scene_row *row);

#endif
