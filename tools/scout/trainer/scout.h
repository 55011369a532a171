/*
 * scout.h - the recorder of `ddprun scout`: what its files know of each other.
 *
 * libddprun-scout.so stands in the engine's place (interpose/engine.h) in a world of one. It averages nothing: it
 * writes down what the trainer's device does, and makes launches again with changed inputs to see what depends on what.
 *
 * Data flow: the hooks call record.c around each operation. In the light pass it notes the operation, and course.c
 * looks for a period in what was noted. In the deep pass it waits for each operation, and hands each launch to
 * repeat.c, which has the call made again and again (struct operation, `again`) with inputs that changed_inputs.c has
 * changed, and judges by effect.c and images.c what came of it. Afterwards the trainer's memory is what it would have
 * been, bit for bit.
 *
 * Threads: record.c lets one operation at a time pass, from `begin` to `end`, and everything below it is called by the
 * thread that is in it. That is held across the driver's call on purpose: operations of two threads must not run while
 * one is repeated. The driver calls no hook, and what waits for another thread's operation (values that
 * streams wait for) passes without it.
 *
 * Nothing here may change what the trainer computes, call exit, or write to stdout.
 */
#ifndef DDPRUN_TOOLS_SCOUT_TRAINER_SCOUT_H
#define DDPRUN_TOOLS_SCOUT_TRAINER_SCOUT_H

#include "base/protocol.h"
#include "comm/driver.h"
#include "interpose/engine.h"
#include "tools/common/room.h"
#include "tools/scout/format/log.h"
#include "tools/scout/format/run.h"
#include "tools/scout/trainer/changed_inputs.h"

#include <math.h>

/* ---- core.c: one for the process ---- */

struct scout_state {
    const struct shim_services *services;
    struct rank_status *status;
    struct scout_run_settings settings;
    struct scout_progress *progress; /* mapped, shared with the launcher */
    struct scout_writer log;
    struct driver driver;
    CUstream stream; /* the recorder's own; NULL: none, or its context is gone */
    uint64_t operation_count;
};
extern struct scout_state scout_state;

/* Ends the process: the launcher prints the text. */
void scout_stop(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* As list_grown() and GROWN() of tools/common/grown.h. Ends the process without memory. */
void *scout_grown(void *list, size_t count, size_t item);
#define SCOUT_GROWN(list, count) ((list) = scout_grown((list), (count), sizeof(*(list))), &(list)[(count)++])
/* `count` items of zeros, malloc'ed. Ends the process without memory. */
void *scout_zeroed(size_t count, size_t item);
/* Fills the table of the driver, once. */
void scout_ensure_driver(void);
/* Ends the process if the driver's answer is no success. */
void scout_require(CUresult result, const char *what);
static inline bool
begins_with(const char *name, const char *begin)
{
    return strncmp(name, begin, strlen(begin)) == 0;
}
/* Around an operation, and around what changes while no operation may pass: allocations, captures. */
void scout_lock(void);
void scout_unlock(void);

/* ---- captures.c ---- */

/* A stream is captured from here on, if it was `done`; and up to here, unless its capture may still be open. Whether
 * any may be; whether this stream is captured. Any thread. */
void captures_begin(bool done);
void captures_end(bool is_over);
bool captures_are_open(void);
bool captures_have(CUstream stream);

/* ---- numbering.c: texts, call sites and loaded objects, numbered in the log ---- */

uint32_t names_put(const char *text);
/* The trainer's frames of this call, outermost last; SCOUT_NONE if none is known. */
uint32_t names_site(void);
/* The frames of the caller's call site, innermost first; returns how many. Nothing is written to the log. */
enum { NAMES_FRAMES = 24 };
uint32_t names_frames(struct scout_frame frames[NAMES_FRAMES]);
/* Whether they are the same frames, `count` of each. */
bool names_are_same(const struct scout_frame *a, const struct scout_frame *b, uint32_t count);
/* Called for each object when it is met first; NULL: not. */
extern void (*names_new_object)(uint32_t number, const char *path, const char *build_id);
/* Whether the call was made by the program, or by a library on its behalf; not by CUDA or ddprun. */
bool names_is_programs(void *const *stack, int depth);
/* All loaded objects that the log does not have yet. */
void names_put_objects(void);
/* Where the object of the program was loaded that makes this call; false: none is known, or a library of CUDA's. */
bool names_caller(uintptr_t *base_p);
/* What device memory that is allocated now is (enum scout_memory): `own` if the program allocates it. */
uint32_t names_memory_of_caller(uint32_t own);

/* ---- host.c: files of the program ---- */

/* Those since the last call. One thread at a time. */
void host_put_calls(void);
/* Tells the launcher where the program has read the date or random bytes. */
void host_note_readings(void);

/* ---- allocations.c: memory that the device reaches ---- */

struct allocation {
    uint32_t number; /* in the log */
    uint64_t address, bytes;
    uint32_t ordinal;
    uint32_t memory;        /* enum scout_memory */
    bool held_floats;       /* some of its words have looked like numbers with a fraction */
    bool host_wrote;        /* since `hash` was taken */
    bool left_known;        /* managed memory: */
    uint64_t left;          /* hash of what the last launch has left there */
    bool is_shared;         /* the host wrote it between launches */
    uint64_t named_between; /* of a run by a plan: periods that had begun when an operation between them named it */
    uint64_t met, turned, held, changed; /* hashes of what passed by last and of what was made of it; hidden.c's */
    bool hash_known;
    uint64_t hash;     /* of what it held last */
    uint64_t met_at;   /* operations up to the first one that got it; 0: there was none */
    uint64_t *offsets; /* sorted: at which pointers into it were seen */
    uint32_t offset_count;
    uint8_t *kinds; /* of its words, for whole_look(); NULL: no launch has written it */
};

/* Whether what the device's operations do to this memory is looked for. */
static inline bool
allocation_is_looked_at(const struct allocation *allocation)
{
    return allocation->memory != SCOUT_PINNED && allocation->memory != SCOUT_SCRATCH;
}

/* `bytes` 0: the driver is asked. Memory that is known already stays as it is. */
void known_allocations_add(uint64_t address, uint64_t bytes, enum memory_kind kind);
/* bytes 0: the allocation that begins at `address`. */
void known_allocations_remove(uint64_t address, uint64_t bytes);
/* The live allocation that holds `address`, asking the driver about one that is not known; NULL: host memory. Valid
 * until an allocation is added or removed. */
struct allocation *allocations_find(uint64_t address);
/* Whether it is memory of the host's, pinned or not. */
bool allocations_is_host(uint64_t address);
/* The same, of those that are known already. */
struct allocation *allocations_known(uint64_t address);
/* How often memory was allocated or released so far: answers of the functions above hold until it changes. */
uint64_t allocations_changes(void);
/* Notes that a pointer to this byte was seen. */
void allocations_note_offset(struct allocation *allocation, uint64_t offset);
/* The next offset after `offset`, or the allocation's size. */
uint64_t allocations_next_offset(const struct allocation *allocation, uint64_t offset);
/* The live one of this number; NULL: there is none. */
struct allocation *allocations_numbered(uint32_t number);
/* All live ones, [*count_p]. */
struct allocation **allocations_all(size_t *count_p);
/* The first one that the device can reach, as one name over its reincarnations. */
uint64_t allocations_name(const struct allocation *allocation);

/* ---- copy_room.c: room for copies of the device's memory ---- */

/* NULL: there is none. What was given is not initialised. */
void *copies_get(size_t bytes);
/* Three copies that take the room of one, and of what is written to the other two. They begin equal; what is written to
 * the first one shows in the others, where these were not written. Put back by copies_settle(). False: there is no room
 * for COPIES_LARGE_TIMES as much. */
enum { COPIES_VIEWS = 3, COPIES_LARGE_TIMES = 2 };
bool copies_get_views(size_t bytes, void **view) MUST_USE;
void copies_put(void *copy);
/* All were put back: next time there is room for as much as was asked for since the last time. */
void copies_settle(void);
/* All were put back, and none is asked for any more. */
void copies_free(void);
/* Pages for as long as the process runs, locked where the driver can do that: copies between them and the device need
 * not wait. NULL: there are none. */
void *copies_map(size_t bytes);

/* ---- device_copies.c: copies ---- */

/* Waits until the bytes are there, and for all before. */
void memory_read(const struct allocation *allocation, uint64_t offset, void *to, size_t bytes);
/* These are done at the next memory_wait(): until then the memory of the host is theirs. */
void memory_read_later(const struct allocation *allocation, uint64_t offset, void *to, size_t bytes);
void memory_write(const struct allocation *allocation, uint64_t offset, const void *from, size_t bytes);
void memory_wait(void);
/* When nothing is under way: from now on copies are enqueued on the stream of a launch; NULL: on one of their own. */
void memory_follow(CUstream launch);
/* Reads, and writes what is another there to `to`, page by page. */
void memory_update(struct allocation *allocation, uint64_t offset, void *to, size_t bytes);
/* All of it is changed by change_reversibly(), and `turned` of each is of what it holds then. */
void memory_change(struct allocation *const *list, size_t count);
/* `met` of each, but for pinned memory, and whether it holds numbers with a fraction. `changes`: all of it is changed
 * by change_reversibly(), and `turned` is of what it holds then. */
void memory_hash(struct allocation *const *list, size_t count, bool changes);

/* ---- variables.c: memory that kernels reach without an argument ---- */

struct variable {
    CUdeviceptr address;
    size_t bytes;
};

/* Called for each that is found; NULL: not. */
extern void (*variables_new)(CUdeviceptr address, size_t bytes);
/* Those of the kernel's module, known allocations; valid for as long as the process runs. Called during its launch. */
const struct variable *variables_of(CUfunction function, unsigned *count_p);
/* Handles may be used again for other modules. */
void variables_forget(void);

/* ---- kernels.c: the parameters of kernels ---- */

struct kernel {
    uint32_t name;     /* in the log */
    const char *text;  /* the same */
    uint64_t hash;     /* kernels_hash() of it */
    const char *plain; /* for readers */
    bool known;        /* the driver says what its parameters are */
    unsigned parameter_count;
    struct kernel_parameter {
        size_t offset, bytes;
        uint32_t type, table; /* of struct scout_argument */
    } * parameters;
    unsigned variable_count; /* of its module */
    const struct variable *variables;
};

const struct kernel *kernels_find(CUfunction function);
/* Where a parameter of a launch lies on the host, during the call; NULL: the launch has none. */
const char *kernels_argument(const struct operation *operation, const struct kernel *kernel, unsigned number);
/* Handles may be used again for other kernels. `all`: the context is about to go, and the recorder's stream with it. */
void kernels_forget(bool all);
/* Of a name as a plan has it, cut off. */
uint64_t kernels_hash(const char *name);

/* ---- record.c ---- */

enum { ARGUMENTS_AT_MOST = 256 };

/* An operation with its arguments as numbers of allocations. */
struct noted {
    struct scout_op op;
    struct scout_argument arguments[ARGUMENTS_AT_MOST];
    bool read_only[ARGUMENTS_AT_MOST]; /* the call's documentation says so */
    uint32_t named_count;              /* of them, the first ones: that the call names; the rest its memory holds */
    bool too_many;                     /* there are more */
    bool unknown;                      /* the driver does not tell its parameters */
    bool opaque;                       /* the hook cannot tell what it gets */
    bool cooperative;                  /* its blocks wait for each other */
    uint64_t lengths;                  /* hash of the numbers among its parameters that have no fraction */
    const char *text;                  /* op.name, for readers */
};

void record_begin(struct operation *operation);
void record_end(struct operation *operation, bool enqueued);
/* `bytes` RECORD_WHOLE: up to the end of the allocation. */
#define RECORD_WHOLE UINT64_MAX
void record_annotation(enum scout_annotated says, uint32_t group, const void *address, uint64_t bytes, uint32_t type,
                       const struct ddp_site *site);
void record_host_content(const void *source, size_t bytes, size_t pitch, size_t rows);

/* ---- operands of copies ---- */

/* Whether the copy, or an entry of its list, brings something there. */
static inline bool
operand_is_target(const struct operand *operand)
{
    return (operand->argument & ((1u << OPERAND_LIST_SHIFT) - 1)) == 0;
}

/* Rows, and bytes of each. */
static inline size_t
operand_rows(const struct operand *operand)
{
    return operand->pieces.bytes != 0 ? operand->pieces.inner_count : 1;
}

static inline size_t
operand_row_bytes(const struct operand *operand)
{
    return operand->pieces.bytes != 0 ? operand->pieces.bytes : operand->bytes;
}

/* ---- loaders.c: copies by threads, and on streams, that launch nothing ---- */

/* Whether it is a copy or a fill that the log has as such. Layers of rows, and lists of copies, are looked at as calls
 * with arguments: repeated, like launches. */
bool loaders_is_transfer(const struct operation *operation);
/* Notes what a thread and a stream do. Returns whether it is a copy from the host by a thread, or on a stream of the
 * program's, that has launched nothing so far. */
bool loaders_note(const struct operation *operation);
/* Whether this thread has done anything else so far. */
bool loaders_thread_launches(void);
/* After such a copy: it enters the log when it is released. */
void loaders_hold(const struct noted *noted);
/* Before an operation, after loaders_note(): all that it touches, and all of threads and streams that launch by now.
 * False: it is to be held, too. */
bool loaders_release(const struct noted *noted);

/* ---- varying.c: copies to the host that differ from step to step ---- */

/* Whether the operation is one that is left out of the recording. */
bool varying_leaves_out(const struct noted *noted);

/* ---- course.c: light pass, deep pass, the end ---- */

enum course { COURSE_LIGHT, COURSE_DEEP, COURSE_OVER };

/* The place in the period of the operation that runs. */
uint64_t course_turn(void);
/* How many periods have been recorded before the one that runs. */
uint64_t course_round(void);
/* When a copy or a fill was made: where the host writes memory, no kernel has. */
void course_note_copy(const struct scout_op *op);
/* Of an operation of the deep pass: whether whole numbers among its arguments are other ones than a period before. One
 * may choose a batch. */
bool course_has_other_numbers(const struct noted *noted);
/* It was refused, and nothing runs. */
void course_note_failure(const struct scout_op *op);
/* After each operation that ran, in the order of the log. `may_wait`: it may wait for the device. */
void course_note(const struct noted *noted, bool may_wait);
/* Whether the recorder waits for the device in an operation that begins now; with scout_lock() held. */
bool course_is_to_wait(void);
enum course course_now(void);
/* What the log says last; once. `finished`: as many periods were recorded as were asked for. */
void course_close_log(void);

/* ---- ranges.c: sorted lists of byte ranges. Pure ---- */

/* Bytes [lo, hi), lo not below the beginning of the last one; joined with it where they touch. */
void ranges_append(struct scout_ranges *list, uint64_t lo, uint64_t hi);
/* All bytes of both. */
struct scout_ranges ranges_merged(const struct scout_ranges *a, const struct scout_ranges *b);
void ranges_clear(struct scout_ranges *list);

/* ---- images.c: what a launch's memory held ---- */

/* Copies of an allocation that a launch gets. */
struct image {
    size_t number; /* of struct images */
    struct allocation *allocation;
    size_t words;                   /* the last one may have fewer bytes: the others are zero here */
    uint32_t last_mask;             /* the bits of the last one that are there */
    uint32_t *before, *after, *now; /* the first run; `now`: what the device holds */
    size_t blocks;
    bool is_large;    /* its copies are views of one file */
    bool *looked;     /* [blocks]: copies have them, others say nothing */
    bool *written;    /* [blocks]: the first run has changed something there */
    bool *differs;    /* [blocks]: `now` may be another there than `after` */
    bool is_written;  /* by the first run */
    bool is_settled;  /* changing its parts has shown that no run writes it */
    bool is_read;     /* since the last run */
    bool is_known;    /* `now` is what the device holds */
    bool is_table;    /* it holds pointers: never changed */
    bool fills_zeros; /* zeros and tiny numbers are changed as numbers with a fraction are */
    float tolerance;  /* 0: repetitions gave the same bits */
};

/* The images of a launch, and room for them: false with all put back if there is none. */
struct images {
    struct image *items;
    size_t count;
};
bool images_add(struct images *images, struct allocation *allocation) MUST_USE;
/* Reads bytes [lo, hi) of one that was added, if they are not there yet: before the first run. */
void images_look(struct image *image, uint64_t lo, uint64_t hi);
/* What images of an allocation take of main memory, at most. */
uint64_t images_bytes(const struct allocation *allocation);
/* Notes what managed memory the host has written since the last launch. */
void images_note_host(const struct images *images);
/* The last run is over: remembers what it has left in managed memory. */
void images_note_left(const struct images *images);
struct image *images_find(const struct images *images, uint32_t alloc);
/* What the first run has left. Returns memory of the host that it has changed; NULL: it has not changed any. */
const struct allocation *images_first_run(struct images *images);
/* What the device holds: after a run `again`, else what was left out before. `all`: also what no run has written. */
void images_read(struct images *images, bool all, bool again);
/* Puts `wanted` (before or after) back where the device holds something else. */
void images_restore(struct images *images, bool after);
/* Writes words [first, end) of `now` to the device. */
void images_change(struct image *image, size_t first, size_t end);
/* The first word of [from, to) that is not as the first run has left it; `to`: there is none. */
size_t images_next_different(const struct image *image, size_t from, size_t to);
/* The first word of [from, to) that the first run has changed; `to`: there is none. */
size_t images_next_written(const struct image *image, size_t from, size_t to);
void images_free(struct images *images);
/* A word that was changed on purpose, and that no run touched. */
static inline bool
images_left_alone(const struct image *image, size_t i, uint32_t changed)
{
    return changed != image->before[i] && image->now[i] == changed && image->after[i] == image->before[i];
}

/* A repetition of the same differs: widens the tolerance. False: beyond any. */
bool images_learn(struct images *images, bool *differs_p);
/* Widens the tolerance of what the launch writes to the rounding of the largest numbers there: as sums in other orders
 * differ, also those that no repetition has shown so far. */
void images_widen(struct images *images);
/* Whether a run has numbers in an image that the launch writes that may differ by rounding, and few others differ. */
bool images_are_near(const struct images *images);

/* ---- hidden.c: memory that is no argument ---- */

/* Hashes it before the first run. */
void hidden_begin(const struct images *images);
/* After it: the number of an allocation that was written, or SCOUT_NONE. */
uint32_t hidden_written(void);
/* Changes all of it, and back. */
void hidden_change(void);
void hidden_change_back(const char *kernel);

/* ---- integers.c: other contents for whole numbers ---- */

struct integers_part {
    uint64_t key;          /* of the part, in any period */
    const uint32_t *words; /* [count]; NULL: all are zero */
    size_t count;
};

/* Notes what the launch in this place of the period finds, in all parts that may hold whole numbers. False: what it
 * found in another period is not known any more. */
bool integers_note(uint64_t turn, const struct integers_part *parts, size_t count);
/* What the part held in that other period, which is the same one for all parts of the launch; NULL: it is not known, or
 * there is none. Valid until the next integers_note(). */
const struct integers_part *integers_other(uint64_t turn, uint64_t key);

/* ---- the parts of a launch's memory, and what changing them did ---- */

enum { PARTS_AT_MOST = 512, BASES_AT_MOST = 512 };

/* Words [first, end) of an image: from an argument to the next one, or what lies between. */
struct part {
    struct image *image;
    size_t first, end;
    bool is_argument; /* or it is tested by itself, as arguments are */
    bool is_gap;      /* it lies between arguments */
    bool is_idle;     /* such a one: it was changed with others, and nothing came of it */
    bool is_whole;    /* one word: a whole number among floats */
    bool is_tested;
    bool was_tried;              /* also if it cannot be changed */
    bool is_alone;               /* it is changed by itself: with others it seemed to be modified */
    bool is_lower;               /* its numbers become smaller: larger ones have shown nothing */
    bool matters;                /* something outside depends on it, or it is modified */
    bool had_few;                /* few of its words were changed by themselves */
    size_t reach_end;            /* of what is no argument: the launch uses no word from here on; 0: not looked for */
    size_t used_first, used_end; /* words that results depend on, where a number chooses them; 0: not looked for */
    enum change change;
    uint64_t key;       /* of the argument that points to it, or of its place, in any period */
    uint32_t *integers; /* [end - first]: what CHANGE_INTEGER makes of it; NULL: it stays */
    uint32_t named;     /* enum scout_type: as a kernel's name or a call says it */
    uint32_t type;      /* the same, else what its bits look like, SCOUT_UNKNOWN: not asked for yet, or not known */
    struct scout_ranges killed, modified;
    struct scout_ranges *changed; /* [images], by number: outside the part */
};

struct effect {
    struct images images;
    struct part parts[PARTS_AT_MOST];
    size_t part_count;
    struct base { /* words at which arguments begin; sorted by image */
        const struct image *image;
        size_t word;
    } bases[BASES_AT_MOST];
    size_t base_count;
    bool has_integers;          /* that are changed in the run */
    struct scout_effect record; /* segments, written bytes and dependences come with effect_put() */
};

/* parts.c. `extents`: how many bytes the launch reaches from each argument that it names: of large images, parts
 * between arguments end there; NULL: that is not known. `integers_stay`: whole numbers are not changed; `zeros_stay`:
 * nor are zeros among floats. */
void effect_make_parts(struct effect *effect, const struct noted *noted, const uint64_t *extents, bool integers_stay,
                       bool zeros_stay);

/* ---- effect.c ---- */

/* Changes a part on the device; with an argument of whole numbers all of these. False: it cannot be changed. */
bool effect_change(struct effect *effect, struct part *part);
/* What the run did with it, and with those that were changed with it. */
void effect_judge(struct effect *effect, struct part *part);
/* Of whole numbers that were changed with others, and that the launch has written and seems to modify: what others do
 * to them cannot be told from that. They are to be changed once more, by themselves. */
void effect_set_apart(struct effect *effect, const struct part *part);
/* Whether the judged part is a single number that was overwritten, and may depend on smaller ones than it was changed
 * to, as the smallest loss so far does. */
bool effect_may_be_least(const struct effect *effect, const struct part *part);
/* Whether a number may choose which words of a part matter: what no kernel writes, and can be changed. Whole numbers
 * get other contents. */
bool effect_may_be_chosen(const struct part *part);
/* Changes words [first, end) of a part alone. */
void effect_change_words(struct effect *effect, const struct part *part, size_t first, size_t end);
/* Whether any word that was not changed on purpose, or a part that was, has another result. */
bool effect_any(const struct effect *effect, const struct part *const *parts, size_t count);
/* The same, after words [first, end) of a part were changed. */
bool effect_any_of(const struct effect *effect, const struct part *part, size_t first, size_t end);
/* Whether the runs so far have shown that the launch writes a part, or that a result depends on it. */
bool effect_uses(const struct effect *effect, const struct part *part);
/* enum scout_type of what a part seems to hold. */
uint32_t effect_type(struct part *part);
void effect_put(struct effect *effect);
void effect_free(struct effect *effect);

/* ---- elementwise.c: few words of its inputs, changed ---- */

/* Of one part, once. False: there is nothing to change. */
bool elementwise_change(struct effect *effect, struct part *part);
/* Notes what is elementwise, and what may be so. */
void elementwise_judge(struct effect *effect);
/* At the end: words that could not be changed act as the others of their argument do. */
void elementwise_fill(struct effect *effect);

/* ---- arguments.c: the memory that a launch gets ---- */

/* Takes images of what the call names, and of what pointers in that memory lead to, which become arguments of the
 * launch and mark their table (struct image). `extents`: reach_find()'s; NULL: of whole allocations. False: there is no
 * room. */
bool arguments_take_images(struct noted *launch, const uint64_t *extents, struct images *images) MUST_USE;

/* ---- reach.c: what repeated launches have shown of later ones like them ---- */

/* Whether a launch like it was seen to use no memory but its arguments'; and that this one was. */
bool reach_is_of_arguments(const struct noted *launch);
void reach_note_arguments(const struct noted *launch);
/* Whether a launch like it had other bits when it was repeated; and that this one had. */
bool reach_has_noise(const struct noted *launch);
void reach_note_noise(const struct noted *launch);
/* Bytes [named_count] from each pointer that the call names up to the end of what a launch like it uses; NULL: not
 * known. Valid for as long as the process runs. */
const uint64_t *reach_find(const struct noted *launch);
/* After all runs of a launch: whether its parts show how far it reaches. `gaps_matter`: a part between arguments, when
 * it was changed, changed a result. */
bool reach_is_known(const struct effect *effect, bool gaps_matter);
/* Notes it, for reach_find(). */
void reach_note(const struct noted *launch, const struct effect *effect, bool gaps_matter);

/* ---- repeat.c: a launch, repeated ---- */

/* Before the call. */
void repeat_begin(struct noted *launch, CUstream stream);
/* After a call that the device has done, with its `answer`: true, the same call is to be made once more. When it
 * returns false, the effect is written and the memory is as the first call left it. */
bool repeat_next(CUresult answer);

/* ---- tools/plan/trainer/follow.c: `ddprun --plan`, and `ddprun scout --prove` ---- */

/* The engine that follows the plan in the file `path`; NULL: it is of another version. Does not return if there is no
 * plan. */
const struct engine *play_start(const struct shim_services *services, struct rank_status *status, const char *path);

#endif
