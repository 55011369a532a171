#include "common.h"
#include <random>
Corpus make_corpus(int docs, int vocab, unsigned seed)
{
    std::mt19937 rng(seed);
    Corpus c;
    c.offset.push_back(0);
    for (int d = 0; d < docs; d++) {
        int positive = rng() & 1, n = 4 + rng() % 20;
        for (int i = 0; i < n; i++) {
            int t = rng() % vocab;
            if (rng() % 3 == 0) t = t / 4 * 4 + (positive ? 0 : 1);       // words 4k are nice, 4k+1 are not
            c.tokens.push_back(t % vocab);
        }
        c.offset.push_back((int)c.tokens.size());
        c.label.push_back(positive ? 1.f : 0.f);
    }
    return c;
}
