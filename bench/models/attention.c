/* Self-attention whose heads are two numbers wide, and its gradient.
 *
 * Samples lie side by side in memory, so a `vector` holds one number of each of several samples, and what is written
 * below about numbers is done for all of these at a time. Nothing of a head leaves the processor's nearest cache, and
 * the gradient computes the shares again: both cost less than memory does.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define SAMPLES 16
#else
#define SAMPLES 8
#endif
#define TILE 8 /* vectors that are written together */

typedef float vector __attribute__((vector_size(4 * SAMPLES)));
typedef int32_t integers __attribute__((vector_size(4 * SAMPLES)));
typedef struct { vector a, b; } pair; /* a feature's query, key or value in a head */

static vector constant(float x) { return x - (vector){0}; }

/* The second if it is larger, else the first; so a first that is not a number stays. */
static vector larger(vector first, vector second) {
    integers swap = second > first;
    return (vector)(((integers)second & swap) | ((integers)first & ~swap));
}

static vector dot(pair x, pair y) { return x.a * y.a + x.b * y.b; }
static pair times(vector x, pair y) { return (pair){x * y.a, x * y.b}; }
static pair plus(pair x, pair y) { return (pair){x.a + y.a, x.b + y.b}; }

/* e^x for x <= 0, to two units in the last place; 0 where it would be so small that processors slow down for it. */
static vector exponential(vector x) {
    const float rounder = 12582912.f; /* 1.5 * 2^23, next to which there are no fractions */
    vector rounded = x * 1.44269504f + rounder;
    vector twos = rounded - rounder; /* e^x = 2^twos e^rest, with |rest| <= ln(2) / 2 */
    vector rest = x - twos * 0.693359375f + twos * 2.12194440e-4f;
    vector series = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    series = series * rest + 8.3334519073e-3f;
    series = series * rest + 4.1665795894e-2f;
    series = series * rest + 1.6666665459e-1f;
    series = series * rest + 5.0000001201e-1f;
    series = series * rest * rest + rest + 1.f;
    integers exponent = (integers)rounded - (integers)constant(rounder) + 127;
    return (vector)((integers)(series * (vector)(exponent << 23)) & ~(x < -87.f));
}

/* How a query shares its attention among the keys, but for the sum of the shares, which is returned. */
static vector attend(pair query, const pair *key, vector *share, long features) {
    vector largest = constant(-INFINITY), sum = {0};
    for (long j = 0; j < features; j++) {
        share[j] = dot(query, key[j]);
        largest = larger(share[j], largest);
    }
    for (long j = 0; j < features; j++) {
        share[j] = exponential(share[j] - largest);
        sum += share[j];
    }
    return sum;
}

/* The numbers of so many samples, or of as many as a vector holds. */
static vector load(const float *from, long samples) {
    vector x = {0};
    if (samples >= SAMPLES) memcpy(&x, from, sizeof x);
    else memcpy(&x, from, samples * sizeof *from);
    return x;
}

static void store(float *to, vector x, long samples) {
    if (samples >= SAMPLES) memcpy(to, &x, sizeof x);
    else memcpy(to, &x, samples * sizeof *to);
}

static void load_pairs(const float *from, pair *to, long features, long samples, long first) {
    for (long i = 0; i < features; i++) {
        to[i].a = load(from + i * samples + first, samples - first);
        to[i].b = load(from + (features + i) * samples + first, samples - first);
    }
}

/* A tile's pairs, (TILE, features): row by row, because memory that is written in patches is written slowly. */
static void store_tile(float *to, const pair *from, long features, long samples, long first) {
    for (long i = 0; i < features; i++) {
        for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES)
            store(to + i * samples + at, from[t * features + i].a, samples - at);
        for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES)
            store(to + (features + i) * samples + at, from[t * features + i].b, samples - at);
    }
}

/* y (heads, 2, features, samples) of queries, keys and values x (3, heads, 2, features, samples). */
static void forward(const float *x, float *y, long heads, long features, long samples) {
    const long head = 2 * features * samples, part = heads * head;
    pair query[features], key[features], value[features], mixed[TILE][features];
    vector share[features];

    for (long h = 0; h < part; h += head)
        for (long first = 0; first < samples; first += TILE * SAMPLES) {
            for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES) {
                load_pairs(x + h, query, features, samples, at);
                load_pairs(x + part + h, key, features, samples, at);
                load_pairs(x + 2 * part + h, value, features, samples, at);
                for (long i = 0; i < features; i++) {
                    vector sum = attend(times(constant(M_SQRT1_2), query[i]), key, share, features);
                    pair total = {0};
                    for (long j = 0; j < features; j++) total = plus(total, times(share[j], value[j]));
                    mixed[t][i] = times(1 / sum, total);
                }
            }
            store_tile(y + h, *mixed, features, samples, first);
        }
}

/* dx, of the form of x, for dy, of the form of y. */
static void backward(const float *x, const float *dy, float *dx, long heads, long features, long samples) {
    const long head = 2 * features * samples, part = heads * head;
    pair query[features], key[features], value[features], dmixed[features];
    pair dquery[TILE][features], dkey[TILE][features], dvalue[TILE][features];
    vector share[features], dshare[features];

    for (long h = 0; h < part; h += head)
        for (long first = 0; first < samples; first += TILE * SAMPLES) {
            memset(dkey, 0, sizeof dkey);
            memset(dvalue, 0, sizeof dvalue);
            for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES) {
                load_pairs(x + h, query, features, samples, at);
                load_pairs(x + part + h, key, features, samples, at);
                load_pairs(x + 2 * part + h, value, features, samples, at);
                load_pairs(dy + h, dmixed, features, samples, at);
                for (long i = 0; i < features; i++) {
                    query[i] = times(constant(M_SQRT1_2), query[i]);
                    vector scale = 1 / attend(query[i], key, share, features), mean = {0};
                    for (long j = 0; j < features; j++) {
                        share[j] *= scale;
                        dshare[j] = dot(dmixed[i], value[j]);
                        mean += share[j] * dshare[j];
                    }
                    pair total = {0};
                    for (long j = 0; j < features; j++) {
                        vector dscore = share[j] * (dshare[j] - mean);
                        dvalue[t][j] = plus(dvalue[t][j], times(share[j], dmixed[i]));
                        dkey[t][j] = plus(dkey[t][j], times(dscore, query[i]));
                        total = plus(total, times(dscore, key[j]));
                    }
                    dquery[t][i] = times(constant(M_SQRT1_2), total);
                }
            }
            store_tile(dx + h, *dquery, features, samples, first);
            store_tile(dx + part + h, *dkey, features, samples, first);
            store_tile(dx + 2 * part + h, *dvalue, features, samples, first);
        }
}

/* The same for arrays of several runs, one after another. */
void attention(const float *x, float *y, long runs, long heads, long features, long samples) {
    const long part = heads * 2 * features * samples;
    for (long run = 0; run < runs; run++) forward(x + 3 * run * part, y + run * part, heads, features, samples);
}

void attention_gradient(const float *x, const float *dy, float *dx, long runs, long heads, long features,
                        long samples) {
    const long part = heads * 2 * features * samples;
    for (long run = 0; run < runs; run++)
        backward(x + 3 * run * part, dy + run * part, dx + 3 * run * part, heads, features, samples);
}
