/*
 * test_analysis.c - the roles that the analysis finds in synthetic trainers, and what it refuses: one row for each
 * habit. Defects of the analysis, put in on purpose, are seen by a row.
 */
#include "tests/lib/test.h"
#include "tests/tools/scout/program.h"

#define PLAIN   NET "step\n" FORWARD BACKWARD SGD
#define MOMENTS "m1 768\nm2 256\n"
#define NORM    "fill norm\nnorm2: norm += g1\nnorm2: norm += g2\n"
#define CLIP    "clip: g1 += norm\nclip: g2 += norm\n"

/* What is expected. */
#define BOTH        "w1 parameter <- g1[0:3072]; w2 parameter <- g2[0:1024]; "
#define SGD_OF_BOTH BOTH "1 group before sgd"
#define NO_FEEDBACK                                                                                                   \
    "no data changes memory that the next step reads: this is not training, its values no longer change, or kernels " \
    "make the data"
#define ON_HOST "scout finds nothing that stays on the device between steps: the host may update it "

static const struct row rows[] = {
    {"SGD", PLAIN, SGD_OF_BOTH},
    {"Adam",
     NET MOMENTS "v1 768\nv2 256\nstep\n" FORWARD BACKWARD
                 "adam: w1 += ~g1 ~m1 ~v1; m1 += ~g1; v1 += ~g1\nadam: w2 += ~g2 ~m2 ~v2; m2 += ~g2; v2 += ~g2\n",
     BOTH "m1 optimizer state; m2 optimizer state; v1 optimizer state; v2 optimizer state; 1 group before adam"},
    {"Adam in three kernels",
     NET MOMENTS "v1 768\nv2 256\nstep\n" FORWARD BACKWARD
                 "first: m1 += ~g1\nsecond: v1 += ~g1\nupdate: w1 += ~m1 ~v1\nfirst: m2 += ~g2\nsecond: v2 += "
                 "~g2\nupdate: w2 += ~m2 ~v2\n",
     BOTH "m1 optimizer state; m2 optimizer state; v1 optimizer state; v2 optimizer state; 1 group before first"},
    {"momentum kept in the gradient",
     NET "step\n" FORWARD ADDING "sgd: w1 += ~g1\nscal: g1 +=\nsgd: w2 += ~g2\nscal: g2 +=\n",
     BOTH "g1 optimizer state; g2 optimizer state; 1 group before sgd"},
    {"clipping by a norm on the device", NET "norm 1\nstep\n" FORWARD BACKWARD NORM CLIP SGD,
     BOTH "1 group before norm2"},
    {"clipping by a norm on the host",
     NET "norm 1\nstep\n" FORWARD BACKWARD NORM "d2h norm\nscal: g1 +=\nscal: g2 +=\n" SGD,
     BOTH "1 group before norm2"},
    {"the host reads gradients whole", NET "step\n" FORWARD BACKWARD "d2h g1\nd2h g2\nscal: g1 +=\nscal: g2 +=\n" SGD,
     BOTH "1 group before a copy to the host"},
    {"loss scaling in half precision",
     NET "s1 768 half\ns2 256 half\nd1 768 half\nd2 256 half\ninf 1\nstep\n" BATCH
         "layer1: h = x s1\nlayer2: y = h s2\nlossk: dy = y t\ndw2: d2 = h dy\ndx: dh = dy s2 ~h\ndw1: d1 = x dh\nfill "
         "inf\nfinite: inf += d1\nfinite: inf += d2\nd2h inf\nunscale: g1 = ~d1\nunscale: g2 = ~d2\n" SGD
         "cast: s1 = ~w1\ncast: s2 = ~w2\n",
     "w1 optimizer state; w2 optimizer state; s1 parameter <- d1[0:1536]; s2 parameter <- d2[0:512]; 1 group before "
     "finite"},
    {"weight decay written into the gradient", NET "step\n" FORWARD BACKWARD "decay: g1 += ~w1\ndecay: g2 += ~w2\n" SGD,
     BOTH "1 group before decay"},
    {"weight decay of the parameter before forward",
     NET "step\n" BATCH "decay: w1 +=\ndecay: w2 +=\n" PASS BACKWARD SGD, SGD_OF_BOTH},
    {"axpy and scal as optimizer",
     NET MOMENTS "step\n" FORWARD BACKWARD
                 "scal: m1 +=\naxpy: m1 += ~g1\naxpy: w1 += ~m1\nscal: m2 +=\naxpy: m2 += ~g2\naxpy: w2 += ~m2\n",
     BOTH "m1 optimizer state; m2 optimizer state; 1 group before axpy"},
    {"a bias of which the host adds up the gradient",
     NET "b 1\ngb 1\nstep\n" BATCH "layer1: h = x w1\nlayer2: y = h w2 b\nlossk: dy = y t\n" BACKWARD
         "d2h dy\nh2d gb\n" SGD "sgd: b += ~gb\n",
     BOTH "b parameter <- gb[0:4]; 1 group before sgd"},
    {"a kernel that scales each gradient by its norm", NET "step\n" FORWARD BACKWARD "clip: g1 *=\nclip: g2 *=\n" SGD,
     BOTH "1 group before clip"},
    {"norms of rows, more than scalars are",
     NET "n1 96\nn2 96\nstep\n" FORWARD BACKWARD
         "norms: n1 = g1\nscale: g1 += n1\nnorms: n2 = g2\nscale: g2 += n2\n" SGD,
     BOTH "1 group before norms"},
    {"a gradient to which the last launch adds nothing: a factor of it is zero",
     NET "z 768\nstep\n" FORWARD BACKWARD "fill z\nlast: g1 += z\n" SGD, SGD_OF_BOTH},
    {"a gradient that a launch scales by memory of which nothing says that it is zero",
     NET "z 768\nstep\n" FORWARD BACKWARD "last: g1 += z\n" SGD, BOTH "1 group before last"},
    {"second moments by rows",
     NET "n1 96\nstep\n" FORWARD BACKWARD "norms: n1 += g1\nupdate: w1 += ~g1 n1\nsgd: w2 += ~g2\n",
     BOTH "n1 optimizer state; 1 group before norms"},
    {"weights that are scaled to a norm behind the update", NET "step\n" FORWARD BACKWARD SGD "norm: w1 *=\n",
     SGD_OF_BOTH},
    {"rows of weights that data normalises",
     NET "step\n" FORWARD BACKWARD "sgd: w2 += ~g2\nmix: g1 *= x\nsgd: w1 += ~g1\n",
     BOTH "2 groups before sgd, before sgd"},
    {"weights that have two places by turns",
     "x 384\nt 128 int\nw 768\nv 768\ny 512\nd 512\ng 768\nstep\n" BATCH
     "layer: y = x w\nlossk: d = ~y t\ndw: g = x d\nsgd: v = ~w ~g\n" BATCH
     "layer: y = x v\nlossk: d = ~y t\ndw: g = x d\nsgd: w = ~v ~g\n",
     "w parameter <- g[0:3072]; v parameter <- g[0:3072]; 2 groups before sgd, before sgd"},
    {"one launch does all of a step", "x 64\nw 768\nu 256\nstep\nh2d x\nall: w *= x u; u *= x w\n",
     "refused: a1[0:3072] is updated by all, which also computes the inputs of its gradient: separate gradient and "
     "update, or average its change"},
    {"gradients that are added to behind the update, too", NET "step\n" MICRO SGD "scal: g1 +=\nscal: g2 +=\n" MICRO,
     "refused: a9[0:1024], to which dw2 adds after its use as a gradient, is never overwritten: scout cannot tell "
     "where a step begins"},
    {"gradients among their weights",
     "x 384\nt 128 int\nw 768\ny 512\nd 512\nstep\n" BATCH
     "layer: y = x w\nlossk: d = ~y t\ndw: w{1:767} += x d\nsgd: w *=\n",
     "refused: parameter a2[0:3072], which sgd updates, and its gradient are interleaved in memory"},
    {"kernels that read what is no argument",
     "x 384\nt 128 int\nw 768\ny 512\nd 512\ng 768\nstep\n" BATCH
     "layer!hidden: y = x\nlossk: d = ~y t\ndw: g = x d\nsgd: w += ~g\n",
     "refused: " NO_FEEDBACK},
    {"decay into other memory, and norms of its rows",
     NET "d1 768\nn1 96\nstep\n" FORWARD BACKWARD
         "decay: d1 = ~g1 ~w1\nnorms: n1 = d1\nupdate: w1 += ~d1 n1\nsgd: w2 += ~g2\n",
     BOTH "1 group before decay"},
    {"a moment of which only some periods show that weights are computed from it",
     NET "m1 768\nstep\n" FORWARD BACKWARD
         "<signs: w1 += ~g1; m1 += ~g1\n>signs: w1 += ~g1 ~m1; m1 += ~g1\nsgd: w2 += ~g2\n",
     BOTH "m1 optimizer state; 1 group before signs"},
    {"two micro-batches", NET "step\nfill g1\nfill g2\n" MICRO MICRO SGD, SGD_OF_BOTH},
    {"four micro-batches, the last shorter",
     NET "step\nfill g1\nfill g2\n" MICRO MICRO MICRO "h2d x[0:192]\nh2d t[0:64]\n" PASS ADDING SGD, SGD_OF_BOTH},
    {"a generator and a critic",
     "z 64\nx 256\nwg 512\nwc 512\nf 256\ny 300\ndy 300\ndf 256\ngg 512\ngc 512\nstep\nh2d x\nh2d z\ngen: f = z "
     "wg\ncritic: y = f wc x\nlossk: dy = y\ndwc: gc = f dy x\nadam: wc += ~gc\ncritic: y = f wc\nlossk: dy = y\ndx: "
     "df = dy wc\ndwg: gg = z df\nadamg: wg += ~gg\n",
     "wg parameter <- gg[0:2048]; wc parameter <- gc[0:2048]; 2 groups before adam, before adamg"},
    {"two optimizers that take turns",
     "xa 128\nxb 128\nwa 512\nwb 512\nya 256\nyb 256\nga 512\ngb 512\nstep\nh2d xa\nfa: ya = xa wa\nda: ga = xa "
     "ya\nsgda: wa += ~ga\nh2d xb\nfb: yb = xb wb\ndb: gb = xb yb\nsgdb: wb += ~gb\n",
     "wa parameter <- ga[0:2048]; wb parameter <- gb[0:2048]; 2 groups before sgda, before sgdb"},
    {"updates inside backward, from one buffer",
     "x 384\nt 128 int\nw1 512\nw2 512\nh 256\ny 256\ndy 256\ndh 256\ng 512\nstep\n" BATCH
     "layer: h = x w1\nlayer: y = h w2\nlossk: dy = ~y t\ndx: dh = dy w2 ~h\ndw: g = h dy\nsgd: w2 += ~g\ndw: g = x "
     "dh\nsgd: w1 += ~g\n",
     "w1 parameter <- g[0:2048]; w2 parameter <- g[0:2048]; 2 groups before sgd, before sgd"},
    {"batch-norm",
     NET "mean 128\nvar 128\nsm 128\nstep\n" BATCH
         "layer1: h = x w1\nmoments: sm = h\nrunning: mean += ~sm\nrunning: var += ~sm\nnorm: h += sm\nlayer2: y = h "
         "w2\nlossk: dy = y t\n" BACKWARD SGD,
     BOTH "mean statistics; var statistics; 1 group before sgd"},
    {"dropout",
     NET "rng 512 int\nstep\n" BATCH
         "layer1: h = x w1\ndrop: h += ~rng; rng +=\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     BOTH "rng random state; 1 group before sgd"},
    {"recurrent state",
     "x 128\nh 256\no 256\nw 512\nu 1024\nd 256\ngw 512\ngu 1024\nstep\nh2d x\ncell: o = x h w u\nerr: d = ~o x\ndw: "
     "gw = x d\ndw: gu = h d\nupd: w += ~gw\nupd: u += ~gu\ncopy h o\n",
     "h suspect; w parameter <- gw[0:2048]; u parameter <- gu[0:4096]; 1 group before upd"},
    {"a cell that keeps its sum",
     "x 512\nc 256\nh 256\na 256\nw 512\nu 1024\nd 256\ngw 512\ngu 1024\nstep\nh2d x[0:256]\ngates: a = x[0:256] h w "
     "u\ncell: c += ~a\nout: h = ~c ~a\nh2d x[256:512]\ngates: a = x[256:512] h w u\ncell: c += ~a\nout: h = ~c "
     "~a\nerr: d = ~h\ndw: gw = x d\ndw: gu = h d\nupd: w += ~gw\nupd: u += ~gu\n",
     "c suspect; h suspect; w parameter <- gw[0:2048]; u parameter <- gu[0:4096]; 1 group before upd"},
    {"an embedding with rows that the batch leaves out",
     "id 64 int\nt 64 int\ne 4096\nh 512\nd 512\nge 4096\nstep\nh2d id\nh2d t\nfill ge\ngather: h = e id\nlossk: d = "
     "~h t\nscatter: ge{128:640} += d id\nsgd: e += ~ge\n",
     "e parameter <- ge[0:16384]; 1 group before sgd"},
    {"an embedding of which only rows of the batch are ever reset",
     "id 64 int\nt 64 int\ne 4096\nh 512\nd 512\nge 4096\nstep\nh2d id\nh2d t\ngather: h = e id\nlossk: d = ~h "
     "t\nscatter: ge{128:640} = d id\nsgd: e += ~ge\n",
     "e parameter <- ge[0:16384]; 1 group before sgd"},
    {"heads that overwrite a part of a buffer each",
     NET "step\n" BATCH
         "head: h(0:256) = x w1\nhead: h(256:512) = x w1\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     SGD_OF_BOTH},
    {"one flat buffer",
     "x 384\nt 128 int\nw 1024\nh 512\ny 1024\ndy 1024\ndh 512\ng 1024\nm 1024\nstep\n" BATCH
     "layer1: h = x w[0:768]\nlayer2: y = h w[768:1024]\nlossk: dy = y t\ndw2: g[768:1024] = h dy\ndx: dh = dy "
     "w[768:1024] ~h\ndw1: g[0:768] = x dh\nadam: w += ~g ~m; m += ~g\n",
     "w parameter <- g[0:4096]; m optimizer state; 1 group before adam"},
    {"gradients allocated in each step", NET "step\nnew g1\nnew g2\n" FORWARD BACKWARD SGD, SGD_OF_BOTH},
    {"two moving averages", NET "e1 768\nf1 768\nstep\n" FORWARD BACKWARD SGD "ema: e1 += ~w1\nema: f1 += ~w1\n",
     BOTH "e1 moving average; f1 moving average; 1 group before sgd"},
    {"a target net that is read",
     NET "tw 256\nty 1024\nstep\n" BATCH
         "layer1: h = x w1\nlayer2: y = h w2\nlayer2: ty = h tw\nlossk: dy = y t ty\n" BACKWARD SGD "soft: tw += ~w2\n",
     BOTH "tw moving average; 1 group before sgd"},
    {"tied weights",
     "x 384\nw 768\nh 512\ny 384\nd 384\ndh 512\ng 768\nstep\nh2d x\nlayer: h = x w\nback: y = h w\nlossk: d = ~y "
     "~x\ndw: g = d h\ndx: dh = d w ~h\ndw: g += x dh\nsgd: w += ~g\n",
     "w parameter <- g[0:3072]; 1 group before sgd"},
    {"one sample with a bias",
     "x 24\nt 1 int\nw1 768\nb1 32\nw2 256\nb2 8\nh 32\ny 8\ndy 8\ndh 32\nq1 768\nq2 32\nq3 256\nq4 8\nstep\n" BATCH
     "layer: h = x w1 ~b1\nlayer: y = h w2 ~b2\nlossk: dy = y t\ndw: q3 = h dy\ndb: q4 = ~dy\ndx: dh = dy w2 ~h\ndw: "
     "q1 = x dh\ndb: q2 = ~dh\nsgd: w1 += ~q1\nsgd: b1 += ~q2\nsgd: w2 += ~q3\nsgd: b2 += ~q4\n",
     "w1 parameter <- q1[0:3072]; b1 parameter <- q2[0:128]; w2 parameter <- q3[0:1024]; b2 parameter <- q4[0:32]; 1 "
     "group before sgd"},
    {"data that stays on the device",
     "x 8192\nt 1024 int\nw1 768\nh 512\ndy 512\ng1 768\nstep\nlayer1: h = x w1\nlossk: dy = ~h t\ndw1: g1 = x "
     "dy\nsgd: w1 += ~g1\n",
     "w1 parameter <- g1[0:3072]; 1 group before sgd"},
    {"a mask of constants in the update",
     NET "mask 768\nlr 1\nstep\n" FORWARD BACKWARD "sgd: w1 += ~g1 ~mask lr\nsgd: w2 += ~g2 lr\n", SGD_OF_BOTH},
    {"step counter and learning rate on the device",
     NET "t0 1\nm1 768\nstep\n" FORWARD BACKWARD "tick: t0 +=\nadam: w1 += ~g1 ~m1 t0; m1 += ~g1\nsgd: w2 += ~g2 t0\n",
     BOTH "t0 optimizer state; m1 optimizer state; 1 group before adam"},
    {"a parameter of one element",
     NET "b 1\ngb 1\nstep\n" BATCH "layer1: h = x w1 b\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD
         "db: gb = dy\n" SGD "sgd: b += gb\n",
     BOTH "b parameter <- gb[0:4]; 1 group before sgd"},
    {"fused SGD", NET "step\n" FORWARD "dx: dh = dy w2 ~h\nfused: w2 += h dy\nfused: w1 += x dh\n",
     "w1 fused parameter; w2 fused parameter; 1 group before the border"},
    {"fused update with momentum",
     NET MOMENTS "step\n" FORWARD
                 "dx: dh = dy w2 ~h\nfused: w2 += h dy ~m2; m2 += h dy\nfused: w1 += x dh ~m1; m1 += x dh\n",
     "refused: parameter a3[0:1024] is updated by fused, and scout finds no gradient of it: the update may compute it, "
     "or reach it by the pointer to the parameter"},
    {"updates inside backward",
     NET "w3 256\ng3 256\nz 1024\ndz 1024\nstep\n" BATCH
         "layer1: h = x w1\nlayer2: y = h w2\nlayer3: z = y w3\nlossk: dz = z t\ndw3: g3 = y dz\ndx: dy = dz w3\nsgd3: "
         "w3 += ~g3\ndw2: g2 = h dy\ndx: dh = dy w2\nsgd2: w2 += ~g2\ndw1: g1 = x dh\nsgd1: w1 += ~g1\n",
     BOTH "w3 parameter <- g3[0:1024]; 3 groups before sgd3, before sgd2, before sgd1"},
    {"the optimizer on the host", NET "step\nh2d w1\nh2d w2\n" FORWARD BACKWARD "d2h g1\nd2h g2\n",
     "refused: " ON_HOST "(3072 bytes are copied to the host, and as many come back)"},
    {"the optimizer on the host, which gets a sum behind the gradients",
     "x 256\nt 64 int\np 300\ny 256\nd 256\nq 301\nstep\nh2d p\n" BATCH
     "layer: y = x p\nlossk: d = y t\ndp: q = x d\nd2h q\n",
     "refused: " ON_HOST "(1204 bytes are copied to the host, and as many come back)"},
    {"the optimizer on the host, in memory that it shares with the device",
     "x 256\nt 64 int\np 300\ny 256\nd 256\nq 301\ne 1\nstep\nh2d e[0:0]\nh2d p[0:0]\n" BATCH
     "layer: y = x p\nlossk: d = y t; e += y\ndp: q = x d\n",
     "refused: " ON_HOST "(it writes a2): annotate what it updates it by, and call DDP_STEP before that"},
    {"k-means",
     "x 2048\nc 64\na 256 int\ns 64\nn 8\nstep\nh2d x\nfill s\nfill n\nassign: a = x c\nsums: s += x a; n += a\nmean: "
     "c = ~s n\n",
     "refused: a1[0:256], written by mean, feeds back into the next step, but no element of it is seen to depend on "
     "its own old value alone: if it is trained, annotate it by hand"},
    {"k-means on small batches",
     "x 2048\nc 64\na 256 int\ns 64\nn 8\nstep\nh2d x\nfill s\nfill n\nassign: a = x c\nsums: s += x a; n += a\nmean: "
     "c += ~s n\n",
     "refused: data reaches a1[0:256] without passing through a gradient, by mean"},
    {"k-means whose nearest centres stay where points change a little",
     "x 2048\nc 64\na 256 int\nd 256\ns 64\nn 8 int\nstep\nh2d x\nassign: a = c; d = x c\nsums: s = x a; n = a\nmean: "
     "c += ~s n\n",
     "refused: data reaches a1[0:256] without passing through a gradient, by mean"},
    {"data of which a batch is as large as a parameter",
     "x 256\nt 256\nw 256\ny 256\ng 256\nstep\nh2d x\nh2d t\nforward: y = ~x ~w\nbackward: g = ~x ~y ~t\nsgd: w += "
     "~g\n",
     "refused: parameters are computed from data element by element: scout cannot tell which memory holds the "
     "gradients"},
    {"inference", "x 128\nw 512\nh 256\nstep\nh2d x\ncell: h = x w\nd2h h[0:16]\n", "refused: " NO_FEEDBACK},
    {"a stencil", "u 1024\nv 1024\nstep\nheat: v = u\nheat: u = v\n", "refused: " NO_FEEDBACK},
    {"a run whose numbers no longer move", NET "step\n" FORWARD BACKWARD "sgd: w1 =\nsgd: w2 =\n",
     "refused: " NO_FEEDBACK},
    {"results that differ",
     NET "step\n" BATCH "layer1: h = x w1\nlayer2!differs: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     "refused: the same launch twice gives different results: layer2"},
    {"results that differ where it does not matter",
     NET "acc 64\nstep\n" FORWARD "count!differs: acc += y\n" BACKWARD SGD, BOTH "acc statistics; 1 group before sgd"},
    {"memory behind a pointer",
     NET "step\n" BATCH "layer1: h = x w1\nlayer2!hidden: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     "refused: layer2 reads memory that is not among its arguments"},
    {"a launch that cannot be repeated",
     NET "step\n" BATCH "layer1: h = x w1\nlayer2!excluded: y = h w2\nlossk: dy = y t\n" BACKWARD SGD,
     "refused: layer2 cannot be repeated: it is a cooperative launch"},
    {"an update that is scaled by data",
     NET "s 1\nstep\n" FORWARD BACKWARD "scale: s = y\nsgd: w1 += ~g1 s\nsgd: w2 += ~g2\n",
     "refused: data reaches a2[0:3072] without passing through a gradient, by sgd"},
    {"the same bytes in each step", NET "step\nh2d= x\nh2d= t\n" PASS BACKWARD SGD, SGD_OF_BOTH},
    {"preconditioned by products of matrices",
     NET "m1 768\nu1 768\nstep\n" FORWARD BACKWARD "mom: m1 += ~g1\northo: u1 = m1\nsgd: w1 += ~u1\nsgd: w2 += ~g2\n",
     "refused: scout cannot tell whether a11[0:3072], written by mom, is a parameter: it finds no gradient of it"},
    {"two steps in a period",
     NET MOMENTS "step\n" FORWARD BACKWARD
                 "log: loss +=\nmom: w1 += ~g1 ~m1; m1 += ~g1\nmom: w2 += ~g2 ~m2; m2 += ~g2\n" FORWARD BACKWARD
                 "mom: w1 += ~g1 ~m1; m1 += ~g1\nmom: w2 += ~g2 ~m2; m2 += ~g2\n",
     BOTH "m1 optimizer state; m2 optimizer state; 1 group before mom"},
    {"momentum kept in the gradient, clipped by a norm",
     NET "norm 1\nstep\n" FORWARD ADDING NORM CLIP "sgd: w1 += ~g1\nscal: g1 +=\nsgd: w2 += ~g2\nscal: g2 +=\n",
     BOTH "g1 optimizer state; g2 optimizer state; 1 group before norm2"},
    {"a gradient that arrives by a copy",
     NET "s1 768\nstep\n" FORWARD "dw2: g2 = h dy\ndx: dh = dy w2 ~h\ndw1: s1 = x dh\ncopy g1 s1\n" SGD, SGD_OF_BOTH},
    {"passes that are added from scratch memory",
     NET "s1 768\nstep\nfill g1\nfill g2\n" FORWARD
         "dw2: g2 += h dy\ndx: dh = dy w2 ~h\ndw1: s1 = x dh\nadd: g1 += ~s1\n" FORWARD
         "dw2: g2 += h dy\ndx: dh = dy w2 ~h\ndw1: s1 = x dh\nadd: g1 += ~s1\n" SGD,
     SGD_OF_BOTH},
    {"tied weights, of which the batch leaves rows out",
     "id 64 int\nt 64 int\ne 4096\nh 512\nd 512\nge 4096\nstep\nh2d id\nh2d t\ngather: h = e id\nlossk: d = e h "
     "t\nouter: ge = h d\nscatter: ge{128:640} += d id\nsgd: e += ~ge\n",
     "e parameter <- ge[0:16384]; 1 group before sgd"},
    {"a rate that comes from the host in each step",
     NET "rate 1\nstep\n" FORWARD BACKWARD "h2d rate\nsgd: w1 += ~g1 rate\nsgd: w2 += ~g2 rate\n", SGD_OF_BOTH},
    {"an update of a parameter and of what may be one", NET "step\n" FORWARD BACKWARD "sgd: w1 += ~g1; w2 *= ~g2\n",
     "refused: scout cannot tell whether a3[0:1024], written by sgd, is a parameter: it finds no gradient of it"},
    {"an update of which too few elements changed, shown by another launch of the kernel",
     NET "step\n" FORWARD BACKWARD "sgd: ?w1 *= ~g1\nsgd: w2 += ~g2\n", SGD_OF_BOTH},
    {"an update of which too few elements changed, and another launch is none",
     NET "step\n" FORWARD BACKWARD "sgd: ?w1 *= ~g1\nsgd: w2 += ~g2\nsgd: x *= g1\n",
     "refused: too few elements changed to tell whether sgd computes element by element: the role of a2[0:3072] is not "
     "known; scout equal steps"},
    {"an update of which too few elements changed", NET "step\n" FORWARD BACKWARD "few: ?w1 *= ~g1\nsgd: w2 += ~g2\n",
     "refused: too few elements changed to tell whether few computes element by element: the role of a2[0:3072] is not "
     "known; scout equal steps"},
    {"something of which too few elements changed, where it decides nothing",
     NET "step\n" BATCH "layer1: h = ?x w1\nlayer2: y = h w2\nlossk: dy = y t\n" BACKWARD SGD, SGD_OF_BOTH},
    {"a step that does not update all, as where gradients have overflowed",
     NET "step\n" FORWARD BACKWARD "<sgd: w1 += ~g1; w2 += ~g2\n>sgd: w1 += ~g1; w2{0:1} += ~g2\n", SGD_OF_BOTH},
    {"a limit at which all numbers of a small gradient are but one",
     NET "b 4\ngb 4\nstep\n" BATCH "layer1: h = x w1\nlayer2: y = h w2 b\nlossk: dy = y t\n" BACKWARD
         "bias: gb = dy\nlimit: g1 +=\nlimit: gb{0:1} *=\n" SGD "sgd: b += ~gb\n",
     BOTH "b parameter <- gb[0:16]; 1 group before limit"},
    {"periods that disagree", NET "step\n" FORWARD BACKWARD "<sgd: w1 += ~g1\n>sgd: w1 *= ~g1\nsgd: w2 += ~g2\n",
     "refused: the recorded periods disagree: the role of a2[0:3072] is not known; scout equal steps"},
    {"operations that do not repeat in memory", NET "step\nlayer1: h = w1\n", "refused: " NO_FEEDBACK},
};

/* ---- what was found, as a line ---- */

static char line[4096];

static void __attribute__((format(printf, 1, 2))) add(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t used = strlen(line);
    vsnprintf(line + used, sizeof(line) - used, format, list);
    va_end(list);
}

static const struct scout_log *shown;
static const struct scout_finding *of;

/* In the order in which the program declares memory. */
static int
by_place(const void *a, const void *b)
{
    const struct scout_tensor *x = &of->tensors[*(const uint32_t *)a], *y = &of->tensors[*(const uint32_t *)b];
    uint32_t ox = shown->allocs[x->alloc].ordinal, oy = shown->allocs[y->alloc].ordinal;
    if (ox != oy)
        return ox < oy ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static const char *
found(const struct scout_log *log, const struct scout_finding *finding)
{
    line[0] = '\0';
    if (!finding->found && !finding->is_open) {
        add("refused: %s", finding->reason);
        return line;
    }
    uint32_t order[256];
    ck_assert_uint_lt(finding->tensor_count, 256);
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        order[i] = i;
    shown = log;
    of = finding;
    qsort(order, finding->tensor_count, sizeof(*order), by_place);
    for (uint32_t i = 0; i < finding->tensor_count; ++i) {
        const struct scout_tensor *tensor = &finding->tensors[order[i]];
        if (tensor->role == ROLE_GRADIENT)
            continue;
        add("%s", program_name(tensor->alloc));
        if (tensor->lo != 0 || tensor->hi != log->allocs[tensor->alloc].bytes)
            add("[%lu:%lu]", tensor->lo, tensor->hi);
        add(" %s%s", tensor->fused ? "fused " : "", scout_role_name(tensor->role));
        FOR_EACH(gradient, finding->tensors, finding->tensor_count) {
            if (gradient->role == ROLE_GRADIENT && gradient->pair == order[i])
                add(" <- %s[%lu:%lu]", program_name(gradient->alloc), gradient->lo, gradient->hi);
        }
        add("; ");
    }
    add("%u group%s", finding->group_count, finding->group_count == 1 ? "" : "s");
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        char name[SCOUT_NAME_BYTES];
        uint32_t before = finding->groups[g].before;
        bool border = before == finding->first + finding->period;
        add("%s before %s", g > 0 ? "," : "", border ? "the border" : scout_op_name(log, &log->ops[before], name));
    }
    return line;
}

static const char *
roles_of(const struct row *row)
{
    struct analysed it;
    analysed_make(&it, row, 4, NULL);
    const char *text = found(&it.log, &it.finding);
    analysed_free(&it);
    return text;
}

TABLE_TEST(roles_are_as_expected, rows)
{
    row_require(&rows[_i], roles_of);
}

static const char *const mutants[] = {"SCOUT_CHAIN_NOT_REQUIRED", "SCOUT_BYTES_SEEN",   "SCOUT_DOWNSTREAM",
                                      "SCOUT_BORDER_EARLY",       "SCOUT_GROUPS_MIXED", "SCOUT_ONE_READING",
                                      "SCOUT_SUSPECTS_TRUSTED"};

TABLE_TEST(a_defect_of_the_analysis_is_seen, mutants)
{
    rows_require_seen(rows, sizeof(rows) / sizeof(*rows), roles_of, mutants[_i]);
}

/* What may be a parameter that was missed keeps a finding from being found until the user names all of it. */
TEST(suspects_have_to_be_named)
{
    struct analysed it;
    struct scout_finding *finding = &it.finding;
    unsigned row = 0;
    while (strcmp(rows[row].name, "a cell that keeps its sum") != 0)
        ++row;
    analysed_make(&it, &rows[row], 4, NULL);
    ck_assert(!finding->found && finding->is_open && strstr(finding->reason, "--per-rank a1,a2,") != NULL);
    static const char *const wrong[] = {"a0", "a1,a9", "1", "a", "a1 a2", "h"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i)
        ck_assert_msg(!scout_finding_name(finding, wrong[i], true), "%s", wrong[i]);
    ck_assert(scout_finding_name(finding, "a1", true) && !finding->found && finding->is_open);
    ck_assert(scout_finding_name(finding, "a1,a2", true) && finding->found && !finding->is_open &&
              finding->reason == NULL);
    analysed_free(&it);
}

/* ---- types ---- */

/* What is said of the net with SGD, and found: types of w1, w2, g1, g2, guesses with `?`; or the reason. Said are
 * "kernel memory type" each, types as in enum scout_type, and what type the bits of all tensors look like. */
static const struct row types[] = {
    {"sgd w1 2,sgd w2 2,sgd g1 2,sgd g2 2,bits 1", PLAIN, "float64 float64 float64 float64"},
    {"layer1 w1 1,layer2 w2 3,bits 0", PLAIN, "float32 float16 float32 float16"},
    {"dw2 g2 4,layer1 w1 4,bits 3", PLAIN, "bfloat16 bfloat16 bfloat16 bfloat16"},
    {"layer1 w1 1,bits 0", PLAIN, "float32 float32 float32 float32"},
    {"bits 1", PLAIN, "float32? float32? float32? float32?"},
    {"layer1 w1 1,sgd w1 2,bits 1", PLAIN,
     "a2[0:3072] holds float32 for one operation and float64 for another, so its type is not known: annotate by hand"},
    {"layer1 w1 1,dw1 g1 2,bits 1", PLAIN,
     "parameter a2[0:3072] has 768 elements, and its gradient a8[0:3072] 384: scout cannot tell where they end; "
     "annotate by hand"},
    {"bits 0", PLAIN,
     "the type of parameter a2[0:3072] is not known: no kernel name and no library call shows it, and too few of its "
     "numbers are not zero; annotate by hand"},
};

/* The type that stands after `text` in what is said. */
static uint32_t
type_after(const char *said, const char *text)
{
    const char *at = strstr(said, text);
    return at != NULL ? (uint32_t)(at[strlen(text)] - '0') : SCOUT_UNKNOWN;
}

static void
say_types(struct scout_log *log, const struct row *row)
{
    FOR_EACH_MUTABLE(op, log->ops, log->op_count) {
        op->block[0] = 1;
        for (uint32_t k = 0; op->effect != NULL && k < op->effect->segment_count; ++k)
            op->effect->segments[k].type = type_after(row->name, "bits ");
        for (uint32_t k = 0; k < op->argument_count; ++k) {
            char text[64];
            snprintf(text, sizeof(text), "%s %s ", scout_log_name(log, op->name), program_name(op->arguments[k].alloc));
            op->arguments[k].type = type_after(row->name, text);
        }
    }
}

static const char *
types_of(const struct row *row)
{
    static const char *const names[] = {"w1", "w2", "g1", "g2"};
    struct analysed it;
    analysed_make(&it, row, 4, say_types);
    line[0] = '\0';
    add("%s", it.finding.found ? "" : it.finding.reason);
    for (size_t i = 0; i < 4 && it.finding.found; ++i)
        FOR_EACH(tensor, it.finding.tensors, it.finding.tensor_count) {
            if (strcmp(program_name(tensor->alloc), names[i]) == 0)
                add("%s%s%s", i > 0 ? " " : "", scout_type_name(tensor->type), tensor->guessed ? "?" : "");
        }
    analysed_free(&it);
    return line;
}

TABLE_TEST(types_are_as_expected, types)
{
    row_require(&types[_i], types_of);
}

static const char *const type_mutants[] = {"SCOUT_TYPES_ANY", "SCOUT_TYPES_ALONE", "SCOUT_LAUNCHES_ALONE",
                                           "SCOUT_GUESSES_CERTAIN"};

TABLE_TEST(a_defect_of_types_is_seen, type_mutants)
{
    rows_require_seen(types, sizeof(types) / sizeof(*types), types_of, type_mutants[_i]);
}

/* Two periods are not enough to see that anything repeats. */
TEST(a_program_that_ends_early_is_refused)
{
    static const struct {
        unsigned steps;
        const char *reason;
    } ends[] = {{0, "the program ended before its operations repeated"}, {2, "the program's operations do not repeat"}};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); ++i) {
        struct analysed it;
        analysed_make(&it, &rows[0], ends[i].steps, NULL);
        ck_assert(!it.finding.found);
        ck_assert_str_eq(it.finding.reason, ends[i].reason);
        analysed_free(&it);
    }
}
