/* must_use.h - marks functions whose result callers may not ignore. */
#ifndef DDPRUN_BASE_MUST_USE_H
#define DDPRUN_BASE_MUST_USE_H

#define MUST_USE __attribute__((warn_unused_result))

#endif
