/*
 * drift.h - a tensor that should be the same on all ranks is not, bit by bit: is that noise of the arithmetic, or a
 * mistake?
 *
 * Float sums by atomicAdd come in another order on each rank, so a right update differs in its last bits. What tells a
 * mistake is the difference d of an element from rank 0's beside m, what the element has moved since ranks were last
 * the same. Three measures, with bounds from measurements (docs/how-it-works.md):
 *
 *   a  the aligned sum, sum of d sign(m) over sum of |m|, window after window: a rate that is larger on one rank. Noise
 *      has no direction that lasts, so the mean of a over windows falls as one over the root of their number.
 *   b  d of single elements beside m: few elements that are wrong much, while most of the tensor is not.
 *   c  sum of d over sum of |m|: all elements wrong a little.
 *
 * m is known for a sample; the largest d is of all elements. An element that is conspicuous is marked: it is sampled
 * from then on, and is a mistake when it stays conspicuous. Chaotic training multiplies noise, so what is above a bound
 * after many steps is looked at again after few.
 *
 * Pure. Not thread-safe.
 */
#ifndef DDPRUN_BUCKETING_DRIFT_H
#define DDPRUN_BUCKETING_DRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRIFT_MARKS = 8 };

/* One tensor on one rank, over all looks. All zero at first. */
struct drift {
    uint64_t marks[DRIFT_MARKS]; /* elements, */
    unsigned hits[DRIFT_MARKS];  /* and in how many looks they were conspicuous */
    size_t mark_count;
    bool is_noisy;        /* a look has found noise: */
    double calm_c;        /* its greatest c, */
    uint64_t calm_window; /* and its longest window */
    bool lasts;           /* differences were there again at once after rank 0's values had been taken */
    uint64_t window;      /* of the look before */
    uint64_t windows;     /* with a movement: */
    double sum, squares;  /* of their a */
};

/* What one look has found. `count` elements are a sample, and the last `marked` of them the marked ones. */
struct drift_look {
    const double *now, *apart; /* [count]: values before rank 0's are taken, and their difference from rank 0's */
    const double *then;        /* the values at the look before, after rank 0's were taken */
    const double *before;      /* the difference then, before they were taken */
    size_t count, marked;
    uint64_t elements, differing; /* of the tensor; of these, those with another value than rank 0's */
    uint64_t unlike;              /* infinite or NaN on one of the two ranks alone */
    double largest, greatest;     /* d of any element; the greatest magnitude of any value */
    uint64_t place;               /* the element with the largest d */
    int fraction_bits;            /* of the type */
    uint64_t window;              /* boundaries since the look before */
};

/* In rising order. */
enum drift_verdict {
    DRIFT_SAME,
    DRIFT_NOISE,
    DRIFT_MARKED,  /* noise but for an element that is conspicuous */
    DRIFT_BAD,     /* above a bound, which noise may be after many steps */
    DRIFT_MISTAKE, /* what noise never is */
};

struct drift_found {
    enum drift_verdict verdict;
    double times;        /* a measure above its bound: so many times */
    double a, b, c;      /* b: the largest of the sample */
    double apart, moved; /* the d, and the m beside it, that tell it */
    uint64_t place;      /* of an element; DRIFT_EVERYWHERE: apart and moved are sums over the sample */
    size_t conspicuous;  /* one of the sample that the caller is to mark, or DRIFT_NONE */
    bool lasts;          /* the difference of the look before is there again: memory that is not annotated keeps it */
};
#define DRIFT_EVERYWHERE UINT64_MAX
#define DRIFT_NONE       SIZE_MAX

/* Judges a look, and keeps in *drift what later looks need. */
struct drift_found drift_judge(struct drift *drift, const struct drift_look *look);

/* `calm`: the least c of the job's tensors that were noise over the same steps. What multiplies noise does so in all of
 * them, so what is far above it is a mistake. */
void drift_compare(struct drift_found *found, double calm);

/* The element is conspicuous: it is in the samples of later looks. */
void drift_mark(struct drift *drift, uint64_t place);

/* At the program's end: values of a sample; `largest` and `differing` are of the sample. Whether it is a mistake. */
bool drift_is_mistake_at_end(struct drift *drift, const struct drift_look *look, struct drift_found *found_p);

/* How soon the next comparison comes. All zero at first. */
struct drift_pace {
    uint64_t strikes;  /* looks in a row that were above a bound */
    uint64_t interval; /* boundaries to the next comparison; 0: as always, every `regular` */
};

/* After a look with this worst verdict, `window` boundaries after the one before: whether the job is to end. */
bool drift_ends(struct drift_pace *pace, enum drift_verdict worst, uint64_t window, uint64_t regular);

/* How many elements of a tensor are sampled, where so many tensors are. */
size_t drift_sample_count(uint64_t elements, size_t tensors);

#endif
