#include "textcat.h"

#include <algorithm>

namespace textcat {

Corpus makeCorpus(int documents, int length, int labels, int vocabulary, std::mt19937 &rng)
{
    Corpus c;
    c.length = length;
    c.labels = labels;
    c.vocabulary = vocabulary;
    c.words.assign(documents * length, -1);
    c.label.resize(documents);
    for (int d = 0; d < documents; ++d) {
        c.label[d] = rng() % labels;
        int n = length / 2 + rng() % (length / 2 + 1);
        for (int i = 0; i < n; ++i) {
            int w = rng() % vocabulary;
            if (rng() % 5 < 2) w = w / labels * labels + c.label[d]; // a telling word
            c.words[d * length + i] = std::min(w, vocabulary - 1);
        }
    }
    return c;
}

void Corpus::shuffle(std::mt19937 &rng)
{
    for (int i = size() - 1; i > 0; --i) {
        int j = rng() % (i + 1);
        if (i == j) continue;
        std::swap(label[i], label[j]);
        std::swap_ranges(words.begin() + i * length, words.begin() + (i + 1) * length, words.begin() + j * length);
    }
}

} // namespace textcat
