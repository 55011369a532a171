/*
 * say.h - lines to the user, all of one form: "softgpu: what happened, where, what to do". Used by the driver and the
 * runtime.
 */
#ifndef SOFTGPU_CUDA_SAY_H
#define SOFTGPU_CUDA_SAY_H

/* One line on stderr, in one write, so that lines of several ranks do not mix. Any thread; not in a signal handler. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
