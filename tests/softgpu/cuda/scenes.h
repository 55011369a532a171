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

/* Runs a scene that must end with 0, and in which the stand-in must have nothing to say. */
void expect_fine(const char *name, const char *const settings[]);

#endif
