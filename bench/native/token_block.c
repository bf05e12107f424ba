/* A block of Global Layers' transformer, forward and backward, over the tokens of a sample (one for each feature).
 *
 *   u = norm(x),  r = u + O attention(P u),  y = r + selu(W (selu(N norm'(r)) * G r)),
 *
 * x and y (WIDTH, features, samples), all norms affine, P, O, W, N and G matrices that all tokens share, G optional.
 * Samples are adjacent in memory, so a `vector` holds one number of each of several samples, and the operations below
 * apply to all of these at once. All numbers of a sample stay in the processor's nearer caches, and the gradient
 * computes the block again: both cost less than access to memory.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
#define SAMPLES 16
#else
#define SAMPLES 8
#endif
#define TILE 8 /* vectors that are written together */
#define WIDTH 16
#define HEADS 8
#define HIDDEN 8
#define SUMS 8 /* that are computed together, in registers; a divisor of the widths */
#define EVALUATED 0.99999500003749969f /* 1 / sqrt(1 + 1e-5): batch-norm in evaluation mode, never trained otherwise */

typedef float vector __attribute__((vector_size(4 * SAMPLES)));
typedef int32_t integers __attribute__((vector_size(4 * SAMPLES)));

typedef struct { vector a, b; } pair; /* a token's query, key or value in a head */

typedef struct {
    const float *scale, *shift;             /* of norm, a number for each feature */
    const float *project, *out;             /* P (3 WIDTH, WIDTH), O (WIDTH, WIDTH) */
    const float *inner_scale, *inner_shift; /* of norm' */
    const float *narrow, *widen, *gate;     /* N (HIDDEN, WIDTH), W (WIDTH, HIDDEN), G as N, or NULL */
} weights;

/* What a token goes through, in order; `heads` are queries, keys and values, a pair for each head. */
typedef struct {
    vector x[WIDTH], normed[WIDTH], heads[3 * WIDTH], mixed[WIDTH], between[WIDTH], inner[WIDTH];
    vector narrowed[HIDDEN], activated[HIDDEN], gate[HIDDEN], gated[HIDDEN], widened[WIDTH];
} token;

/* Numbers ------------------------------------------------------------------------------------------------------- */

static vector constant(float x) { return x - (vector){0}; }

static vector where(integers condition, vector yes, vector no) {
    return (vector)(((integers)yes & condition) | ((integers)no & ~condition));
}

/* The larger one; the second if one of them is not a number. */
static vector larger(vector x, vector y) {
#if defined __AVX512F__
    return (vector)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined __AVX__
    return (vector)_mm256_max_ps((__m256)x, (__m256)y);
#else
    return where(x > y, x, y);
#endif
}

/* 2^x for -126 <= x <= 0, to two units in the last place; below -126 as there: next to nothing. */
static vector power_of_two(vector x) {
    const float rounder = 12582912.f; /* 1.5 * 2^23, next to which there are no fractions */
    x = larger(constant(-126), x);
    vector rounded = x + rounder;
    vector rest = x - (rounded - rounder); /* at most a half, and 2^rest its series */
    vector series = rest * 1.5403530e-4f + 1.3333558e-3f;
    series = series * rest + 9.6181291e-3f;
    series = series * rest + 5.5504109e-2f;
    series = series * rest + 2.4022651e-1f;
    series = series * rest + 6.9314718e-1f;
    series = series * rest + 1.f;
    return (vector)((integers)series + ((integers)rounded << 23)); /* the whole part goes to the exponent */
}

#define SELU_SCALE 1.0507009873554805f
#define SELU_BELOW 1.7580993408473766f /* its scale times its alpha */

static vector selu(vector x) {
    vector below = power_of_two((float)M_LOG2E * where(x > 0, constant(0), x)) - 1.f;
    return where(x > 0, SELU_SCALE * x, SELU_BELOW * below);
}

/* The derivative of selu where it is y. */
static vector selu_slope(vector y) { return where(y > 0, constant(SELU_SCALE), y + SELU_BELOW); }

/* Matrices ------------------------------------------------------------------------------------------------------ */

/* y = M x, M (rows, columns). */
static inline void product(const float *matrix, const vector *x, vector *y, long rows, long columns) {
    for (long r = 0; r < rows; r += SUMS) {
        vector sum[SUMS] = {0};
        for (long c = 0; c < columns; c++)
            for (long k = 0; k < SUMS; k++) sum[k] += matrix[(r + k) * columns + c] * x[c];
        for (long k = 0; k < SUMS; k++) y[r + k] = sum[k];
    }
}

/* dx += M^T dy */
static inline void transposed(const float *matrix, const vector *dy, vector *dx, long rows, long columns) {
    for (long c = 0; c < columns; c += SUMS) {
        vector sum[SUMS];
        for (long k = 0; k < SUMS; k++) sum[k] = dx[c + k];
        for (long r = 0; r < rows; r++)
            for (long k = 0; k < SUMS; k++) sum[k] += matrix[r * columns + c + k] * dy[r];
        for (long k = 0; k < SUMS; k++) dx[c + k] = sum[k];
    }
}

/* dM += dy x^T of all tokens, of which x and dy are those of the first; every number a vector of samples. */
static inline void outer(vector *matrix, const vector *dy, const vector *x, long rows, long columns, long tokens) {
    const long next = sizeof(token) / sizeof(vector);
    for (long r = 0; r < rows; r += 2)
        for (long c = 0; c < columns; c += SUMS) {
            vector *upper = matrix + r * columns + c, *lower = upper + columns, above[SUMS], below[SUMS];
            for (long k = 0; k < SUMS; k++) above[k] = upper[k], below[k] = lower[k];
            for (long i = 0; i < tokens; i++)
                for (long k = 0; k < SUMS; k++) {
                    above[k] += dy[i * next + r] * x[i * next + c + k];
                    below[k] += dy[i * next + r + 1] * x[i * next + c + k];
                }
            for (long k = 0; k < SUMS; k++) upper[k] = above[k], lower[k] = below[k];
        }
}

/* Attention ----------------------------------------------------------------------------------------------------- */

static vector dot(pair x, pair y) { return x.a * y.a + x.b * y.b; }
static pair times(vector x, pair y) { return (pair){x * y.a, x * y.b}; }
static pair plus(pair x, pair y) { return (pair){x.a + y.a, x.b + y.b}; }
static pair pair_at(const vector *place) { return (pair){place[0], place[1]}; }

static void put_pair(vector *place, pair x) {
    place[0] = x.a;
    place[1] = x.b;
}

/* A head of all tokens; queries times 1 / sqrt(2), the root of their width, and 1 / ln(2), for powers of two. */
static void get_head(const token *tokens, long features, long head, pair *query, pair *key, pair *value) {
    for (long i = 0; i < features; i++) {
        const vector *own = tokens[i].heads + 2 * head;
        query[i] = times(constant(M_SQRT1_2 * M_LOG2E), pair_at(own));
        key[i] = pair_at(own + WIDTH);
        value[i] = pair_at(own + 2 * WIDTH);
    }
}

/* How a query shares its attention among the keys: softmax. */
static void attend(pair query, const pair *key, vector *share, long features) {
    vector largest = constant(-INFINITY), sum = {0};
    for (long j = 0; j < features; j++) {
        share[j] = dot(query, key[j]);
        largest = larger(largest, share[j]);
    }
    for (long j = 0; j < features; j++) {
        share[j] = power_of_two(share[j] - largest);
        sum += share[j];
    }
    vector scale = 1 / sum;
    for (long j = 0; j < features; j++) share[j] *= scale;
}

/* What is mixed in the heads, and all shares (HEADS, features, features). */
static void mix(token *tokens, vector *share, long features) {
    pair query[features], key[features], value[features];
    for (long head = 0; head < HEADS; head++) {
        get_head(tokens, features, head, query, key, value);
        for (long i = 0; i < features; i++, share += features) {
            attend(query[i], key, share, features);
            pair sum = {0};
            for (long j = 0; j < features; j++) sum = plus(sum, times(share[j], value[j]));
            put_pair(tokens[i].mixed + 2 * head, sum);
        }
    }
}

/* The heads of dtokens from what is mixed in them. */
static void mix_back(const token *tokens, token *dtokens, const vector *share, long features) {
    pair query[features], key[features], value[features], dkey[features], dvalue[features];
    vector dshare[features];
    for (long head = 0; head < HEADS; head++) {
        get_head(tokens, features, head, query, key, value);
        memset(dkey, 0, sizeof dkey);
        memset(dvalue, 0, sizeof dvalue);
        for (long i = 0; i < features; i++, share += features) {
            pair dmixed = pair_at(dtokens[i].mixed + 2 * head), dquery = {0};
            vector mean = {0};
            for (long j = 0; j < features; j++) {
                dshare[j] = dot(dmixed, value[j]);
                mean += share[j] * dshare[j];
            }
            for (long j = 0; j < features; j++) {
                vector dscore = share[j] * (dshare[j] - mean);
                dvalue[j] = plus(dvalue[j], times(share[j], dmixed));
                dkey[j] = plus(dkey[j], times(dscore, query[i]));
                dquery = plus(dquery, times(dscore, key[j]));
            }
            put_pair(dtokens[i].heads + 2 * head, times(constant(M_SQRT1_2), dquery));
        }
        for (long j = 0; j < features; j++) {
            put_pair(dtokens[j].heads + WIDTH + 2 * head, times(constant(M_LN2), dkey[j]));
            put_pair(dtokens[j].heads + 2 * WIDTH + 2 * head, dvalue[j]);
        }
    }
}

/* The block ------------------------------------------------------------------------------------------------------ */

/* Everything from x on, of as many samples as a vector holds. */
static void forth(const weights *w, token *tokens, vector *share, long features) {
    for (long i = 0; i < features; i++) {
        token *t = tokens + i;
        for (long c = 0; c < WIDTH; c++) t->normed[c] = w->scale[i] * EVALUATED * t->x[c] + w->shift[i];
        product(w->project, t->normed, t->heads, 3 * WIDTH, WIDTH);
    }
    mix(tokens, share, features);
    for (long i = 0; i < features; i++) {
        token *t = tokens + i;
        product(w->out, t->mixed, t->between, WIDTH, WIDTH);
        for (long c = 0; c < WIDTH; c++) {
            t->between[c] += t->normed[c];
            t->inner[c] = w->inner_scale[i] * EVALUATED * t->between[c] + w->inner_shift[i];
        }
        product(w->narrow, t->inner, t->narrowed, HIDDEN, WIDTH);
        if (w->gate) product(w->gate, t->between, t->gate, HIDDEN, WIDTH);
        for (long k = 0; k < HIDDEN; k++) {
            t->activated[k] = selu(t->narrowed[k]);
            t->gated[k] = w->gate ? t->activated[k] * t->gate[k] : t->activated[k];
        }
        product(w->widen, t->gated, t->widened, WIDTH, HIDDEN);
        for (long c = 0; c < WIDTH; c++) t->widened[c] = selu(t->widened[c]);
    }
}

/* What the weights' gradients are summed in: vectors of what single samples add. */
typedef struct {
    vector project[3 * WIDTH * WIDTH], out[WIDTH * WIDTH];
    vector narrow[HIDDEN * WIDTH], widen[WIDTH * HIDDEN], gate[HIDDEN * WIDTH];
} sums;

/* dtokens, from their dy in `widened` on, and what these samples add to the weights' gradients. */
static void forth_back(
    const weights *w, const token *tokens, const vector *share, token *dtokens, sums *sum, vector (*norms)[4],
    long features
) {
    for (long i = 0; i < features; i++) {
        const token *t = tokens + i;
        token *d = dtokens + i;
        memset(d->gated, 0, sizeof d->gated);
        memset(d->inner, 0, sizeof d->inner);
        memset(d->mixed, 0, sizeof d->mixed);
        for (long c = 0; c < WIDTH; c++) {
            d->between[c] = d->widened[c];
            d->widened[c] *= selu_slope(t->widened[c]);
        }
        transposed(w->widen, d->widened, d->gated, WIDTH, HIDDEN);
        for (long k = 0; k < HIDDEN; k++) {
            vector through = w->gate ? d->gated[k] * t->gate[k] : d->gated[k];
            d->narrowed[k] = through * selu_slope(t->activated[k]);
            d->gate[k] = d->gated[k] * t->activated[k];
        }
        transposed(w->narrow, d->narrowed, d->inner, HIDDEN, WIDTH);
        if (w->gate) transposed(w->gate, d->gate, d->between, HIDDEN, WIDTH);
        for (long c = 0; c < WIDTH; c++) {
            norms[i][2] += EVALUATED * d->inner[c] * t->between[c];
            norms[i][3] += d->inner[c];
            d->between[c] += w->inner_scale[i] * EVALUATED * d->inner[c];
        }
        transposed(w->out, d->between, d->mixed, WIDTH, WIDTH);
    }
    mix_back(tokens, dtokens, share, features);
    for (long i = 0; i < features; i++) {
        const token *t = tokens + i;
        token *d = dtokens + i;
        memcpy(d->normed, d->between, sizeof d->normed);
        transposed(w->project, d->heads, d->normed, 3 * WIDTH, WIDTH);
        for (long c = 0; c < WIDTH; c++) {
            norms[i][0] += EVALUATED * d->normed[c] * t->x[c];
            norms[i][1] += d->normed[c];
            d->x[c] = w->scale[i] * EVALUATED * d->normed[c];
        }
    }
    outer(sum->project, dtokens->heads, tokens->normed, 3 * WIDTH, WIDTH, features);
    outer(sum->out, dtokens->between, tokens->mixed, WIDTH, WIDTH, features);
    outer(sum->narrow, dtokens->narrowed, tokens->inner, HIDDEN, WIDTH, features);
    outer(sum->widen, dtokens->widened, tokens->gated, WIDTH, HIDDEN, features);
    if (w->gate) outer(sum->gate, dtokens->gate, tokens->between, HIDDEN, WIDTH, features);
}

/* Memory --------------------------------------------------------------------------------------------------------- */

/* The numbers of `samples` samples, or of as many as a vector holds. */
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

/* A tile (TILE, features, WIDTH) into an array (WIDTH, features, samples): row by row, for memory that is written in
 * patches is written slowly. */
static void store_tile(float *to, vector (*tile)[WIDTH], long features, long samples, long first) {
    for (long c = 0; c < WIDTH; c++)
        for (long i = 0; i < features; i++)
            for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES)
                store(to + (c * features + i) * samples + at, tile[t * features + i][c], samples - at);
}

/* Fetch where the numbers of the samples from `at` on will be written, while they are computed. */
static void expect(float *to, long rows, long samples, long at) {
    for (long row = 0; row < rows; row++) __builtin_prefetch(to + row * samples + at, 0, 2);
}

static float total(vector x) {
    float sum = 0;
    for (long s = 0; s < SAMPLES; s++) sum += x[s];
    return sum;
}

static void totals(const vector *sums, float *to, long numbers) {
    for (long k = 0; k < numbers; k++) to[k] = total(sums[k]);
}

void token_block(const float *x, const weights *w, float *y, long features, long samples) {
    token tokens[features];
    vector tile[TILE * features][WIDTH], share[HEADS * features * features];
    for (long first = 0; first < samples; first += TILE * SAMPLES) {
        for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES) {
            for (long i = 0; i < features; i++)
                for (long c = 0; c < WIDTH; c++)
                    tokens[i].x[c] = load(x + (c * features + i) * samples + at, samples - at);
            expect(y, WIDTH * features, samples, at);
            forth(w, tokens, share, features);
            for (long i = 0; i < features; i++)
                for (long c = 0; c < WIDTH; c++)
                    tile[t * features + i][c] = tokens[i].between[c] + tokens[i].widened[c];
        }
        store_tile(y, tile, features, samples, first);
    }
}

/* dx and the weights' gradients `dw`, in the order of `weights`, for dy. */
void token_block_gradient(
    const float *x, const weights *w, const float *dy, float *dx, float **dw, long features, long samples
) {
    token tokens[features], dtokens[features];
    vector tile[TILE * features][WIDTH], share[HEADS * features * features], norms[features][4];
    sums sum;
    memset(norms, 0, sizeof norms);
    memset(&sum, 0, sizeof sum);
    for (long first = 0; first < samples; first += TILE * SAMPLES) {
        for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES) {
            for (long i = 0; i < features; i++)
                for (long c = 0; c < WIDTH; c++) {
                    const long place = (c * features + i) * samples + at;
                    tokens[i].x[c] = load(x + place, samples - at);
                    dtokens[i].widened[c] = load(dy + place, samples - at);
                }
            expect(dx, WIDTH * features, samples, at);
            forth(w, tokens, share, features);
            forth_back(w, tokens, share, dtokens, &sum, norms, features);
            for (long i = 0; i < features; i++) memcpy(tile[t * features + i], dtokens[i].x, sizeof dtokens[i].x);
        }
        store_tile(dx, tile, features, samples, first);
    }
    for (long i = 0; i < features; i++)
        for (long k = 0; k < 4; k++) dw[k < 2 ? k : k + 2][i] = total(norms[i][k]);
    totals(sum.project, dw[2], 3 * WIDTH * WIDTH);
    totals(sum.out, dw[3], WIDTH * WIDTH);
    totals(sum.narrow, dw[6], HIDDEN * WIDTH);
    totals(sum.widen, dw[7], WIDTH * HIDDEN);
    if (w->gate) totals(sum.gate, dw[8], HIDDEN * WIDTH);
}
