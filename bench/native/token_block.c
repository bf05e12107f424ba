/* One transformer block of Global Layers (Obeidi, 2023, section 3.3 and appendix C), forward and backward.
 *
 * A sample is a sequence of tokens, one for each feature i of the data; a token is a vector x_i of WIDTH numbers. With
 * norm(x)_i = scale_i EVALUATED x_i + shift_i (batch-norm of a feature, in evaluation mode) the block computes
 *
 *   u_i = norm(x)_i                                              `normed`
 *   (q_i, k_i, v_i) = P u_i                                      `heads`: queries, keys, values of all heads
 *   a_i = sum over j of softmax_j(q_i k_j / sqrt(2)) v_j         `mixed`: attention, for each head
 *   r_i = u_i + O a_i                                            `between`
 *   h_i = selu(N norm'(r)_i) * G r_i                             `narrowed`, `activated`, `gate`, `gated`
 *   y_i = r_i + selu(W h_i)                                      `widened` is selu(W h_i)
 *
 * All tokens share the matrices P, O, N, G and W; without G, h_i = selu(N norm'(r)_i). The names on the right are
 * members of the structure `token`. `by_definition` in token_block.py is the same in tensor operations. For a quantity
 * z, dz is the gradient of the loss with respect to z.
 *
 * Memory. x and y are arrays (WIDTH, features, samples) of float32: samples are adjacent. A `vector` holds one number
 * of each of SAMPLES adjacent samples. C's operators on vectors compute SAMPLES samples at once, and the code below
 * reads as if there was one sample. The last vector may be partly filled; its other entries are 0 and are not stored.
 *
 * Loops. token_block loops over tiles of TILE vectors, then over vectors. Within a vector, `forward` and `backward`
 * loop over the tokens, and `product` and its relatives over the rows and columns of a matrix. What belongs to one
 * vector (an array of `token`, and the shares of the attention) stays in the processor's nearer caches. The gradient
 * computes the block again instead of keeping what lies between x and y: reading that from memory would take longer.
 *
 * Sums. A processor core starts two multiplications with addition per cycle, and each takes about four cycles. In a
 * single sum every addition waits for the one before, and the core is idle most of the time. SUMS = 8 sums at a time,
 * each in a register of its own, keep it busy; 16 would need more registers than there are without AVX-512. The order
 * of the additions in each sum is that of the code, so that machines with the same instructions round alike.
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
#define TILE 8 /* vectors whose results are written together, see store_tile */
#define WIDTH 16 /* numbers of a token */
#define HEADS 8 /* of attention, each of width 2 */
#define HIDDEN 8 /* width of h */
#define SUMS 8 /* computed together; a divisor of WIDTH and HIDDEN */
#define EVALUATED 0.99999500003749969f /* 1 / sqrt(1 + 1e-5): batch-norm with mean 0, variance 1 and epsilon 1e-5 */

typedef float vector __attribute__((vector_size(4 * SAMPLES)));
typedef int32_t integers __attribute__((vector_size(4 * SAMPLES)));

typedef struct { vector a, b; } pair; /* the query, key or value of a token in one head */

/* The weights, row by row; the same order as `Weights` in token_block.py. */
typedef struct {
    const float *scale, *shift;             /* of norm, (features) */
    const float *project, *out;             /* P (3 WIDTH, WIDTH): queries, keys, values; O (WIDTH, WIDTH) */
    const float *inner_scale, *inner_shift; /* of norm', (features) */
    const float *narrow, *widen, *gate;     /* N (HIDDEN, WIDTH), W (WIDTH, HIDDEN), G as N, or NULL */
} weights;

/* The quantities of one token, in the order in which they are computed (see the equations above); `inner` is
 * norm'(r)_i. In `heads` the queries of all heads come first, then the keys, then the values, a pair for each head.
 * For gradients the same structure holds dz at the place of z. */
typedef struct {
    vector x[WIDTH], normed[WIDTH], heads[3 * WIDTH], mixed[WIDTH], between[WIDTH], inner[WIDTH];
    vector narrowed[HIDDEN], activated[HIDDEN], gate[HIDDEN], gated[HIDDEN], widened[WIDTH];
} token;

/* Numbers ------------------------------------------------------------------------------------------------------- */

static vector constant(float x) { return x - (vector){0}; }

static vector where(integers condition, vector yes, vector no) {
    return (vector)(((integers)yes & condition) | ((integers)no & ~condition));
}

/* Return the larger of two numbers, or y if one of them is NaN. */
static vector larger(vector x, vector y) {
#if defined __AVX512F__
    return (vector)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined __AVX__
    return (vector)_mm256_max_ps((__m256)x, (__m256)y);
#else
    return where(x > y, x, y);
#endif
}

/* Return 2^x for x <= 0, with an error of two units in the last place; for x < -126 return 2^-126, next to 0.
 *
 * x = n + f with an integer n and |f| <= 1/2. 2^f is a polynomial, and n is added to the exponent of the result. */
static vector power_of_two(vector x) {
    const float rounder = 12582912.f; /* 1.5 * 2^23: adding it rounds to an integer, n, in the lowest bits */
    x = larger(constant(-126), x);
    vector rounded = x + rounder;
    vector rest = x - (rounded - rounder); /* f */
    vector series = rest * 1.5403530e-4f + 1.3333558e-3f;
    series = series * rest + 9.6181291e-3f;
    series = series * rest + 5.5504109e-2f;
    series = series * rest + 2.4022651e-1f;
    series = series * rest + 6.9314718e-1f;
    series = series * rest + 1.f;
    return (vector)((integers)series + ((integers)rounded << 23)); /* bits 23 to 30 are the exponent */
}

#define SELU_SCALE 1.0507009873554805f
#define SELU_BELOW 1.7580993408473766f /* SELU_SCALE times alpha = 1.6732632423543772 */

/* Return selu(x) = SELU_SCALE x for x > 0, else SELU_BELOW (e^x - 1) (Klambauer et al., 2017, equation 2). */
static vector selu(vector x) {
    vector below = power_of_two((float)M_LOG2E * where(x > 0, constant(0), x)) - 1.f;
    return where(x > 0, SELU_SCALE * x, SELU_BELOW * below);
}

/* Return the derivative of selu at the place where selu is y. */
static vector selu_slope(vector y) { return where(y > 0, constant(SELU_SCALE), y + SELU_BELOW); }

/* Matrices ------------------------------------------------------------------------------------------------------ */

/* y = M x, with M (rows, columns). Each x[c] is loaded once for SUMS rows. */
static inline void product(const float *matrix, const vector *x, vector *y, long rows, long columns) {
    for (long r = 0; r < rows; r += SUMS) {
        vector sum[SUMS] = {0};
        for (long c = 0; c < columns; c++)
            for (long k = 0; k < SUMS; k++) sum[k] += matrix[(r + k) * columns + c] * x[c];
        for (long k = 0; k < SUMS; k++) y[r + k] = sum[k];
    }
}

/* dx += M^T dy, the gradient of y = M x with respect to x. The sums begin with the old dx. */
static inline void transposed(const float *matrix, const vector *dy, vector *dx, long rows, long columns) {
    for (long c = 0; c < columns; c += SUMS) {
        vector sum[SUMS];
        for (long k = 0; k < SUMS; k++) sum[k] = dx[c + k];
        for (long r = 0; r < rows; r++)
            for (long k = 0; k < SUMS; k++) sum[k] += matrix[r * columns + c + k] * dy[r];
        for (long k = 0; k < SUMS; k++) dx[c + k] = sum[k];
    }
}

/* dM += sum over tokens of dy x^T, the gradient of y = M x with respect to M. x and dy point into the first token.
 * Each number of dM is a vector: samples are added up at the very end (totals). 2 rows and SUMS columns are summed at
 * a time. */
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

/* Copy the queries, keys and values of one head for all tokens. Queries are multiplied by 1 / sqrt(2), where 2 is the
 * width of a head, and by log2(e), because softmax below uses powers of two: e^s = 2^(s log2(e)). */
static void get_head(const token *tokens, long features, long head, pair *query, pair *key, pair *value) {
    for (long i = 0; i < features; i++) {
        const vector *own = tokens[i].heads + 2 * head;
        query[i] = times(constant(M_SQRT1_2 * M_LOG2E), pair_at(own));
        key[i] = pair_at(own + WIDTH);
        value[i] = pair_at(own + 2 * WIDTH);
    }
}

/* Compute a row of the softmax: share[j] = e^(q k_j / sqrt(2)), divided by their sum. The largest exponent is
 * subtracted first, which changes no share and avoids overflow. */
static void softmax(pair query, const pair *key, vector *share, long features) {
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

/* Attention (Vaswani et al., 2017, equation 1): compute `mixed` of all tokens; share is (HEADS, features, features). */
static void attention(token *tokens, vector *share, long features) {
    pair query[features], key[features], value[features];
    for (long head = 0; head < HEADS; head++) {
        get_head(tokens, features, head, query, key, value);
        for (long i = 0; i < features; i++, share += features) {
            softmax(query[i], key, share, features);
            pair sum = {0};
            for (long j = 0; j < features; j++) sum = plus(sum, times(share[j], value[j]));
            put_pair(tokens[i].mixed + 2 * head, sum);
        }
    }
}

/* The gradient of attention: `heads` of dtokens from their `mixed`. With p_ij = share and dp_ij = da_i v_j,
 *
 *   dv_j = sum over i of p_ij da_i,   ds_ij = p_ij (dp_ij - sum over k of p_ik dp_ik)   (s: scores before the softmax),
 *   dq_i = sum over j of ds_ij k_j / sqrt(2),   dk_j = sum over i of ds_ij q_i / sqrt(2).
 *
 * get_head has multiplied q_i by log2(e) / sqrt(2), so that ln(2) gives dk_j. */
static void attention_backward(const token *tokens, token *dtokens, const vector *share, long features) {
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

/* Compute all quantities of one vector of samples from `x` of its tokens; `share` is kept for the gradient. */
static void forward(const weights *w, token *tokens, vector *share, long features) {
    for (long i = 0; i < features; i++) {
        token *t = tokens + i;
        for (long c = 0; c < WIDTH; c++) t->normed[c] = w->scale[i] * EVALUATED * t->x[c] + w->shift[i];
        product(w->project, t->normed, t->heads, 3 * WIDTH, WIDTH); /* q_i, k_i, v_i */
    }
    attention(tokens, share, features); /* a_i of all tokens */
    for (long i = 0; i < features; i++) {
        token *t = tokens + i;
        product(w->out, t->mixed, t->between, WIDTH, WIDTH);
        for (long c = 0; c < WIDTH; c++) {
            t->between[c] += t->normed[c]; /* r_i */
            t->inner[c] = w->inner_scale[i] * EVALUATED * t->between[c] + w->inner_shift[i];
        }
        product(w->narrow, t->inner, t->narrowed, HIDDEN, WIDTH);
        if (w->gate) product(w->gate, t->between, t->gate, HIDDEN, WIDTH);
        for (long k = 0; k < HIDDEN; k++) {
            t->activated[k] = selu(t->narrowed[k]);
            t->gated[k] = w->gate ? t->activated[k] * t->gate[k] : t->activated[k]; /* h_i */
        }
        product(w->widen, t->gated, t->widened, WIDTH, HIDDEN);
        for (long c = 0; c < WIDTH; c++) t->widened[c] = selu(t->widened[c]);
    }
}

/* Sums of the matrices' gradients over the samples at the same entry of a vector. */
typedef struct {
    vector project[3 * WIDTH * WIDTH], out[WIDTH * WIDTH];
    vector narrow[HIDDEN * WIDTH], widen[WIDTH * HIDDEN], gate[HIDDEN * WIDTH];
} sums;

/* Compute dtokens from dy, which is in their `widened`, and add the gradients of the weights to `sum` (matrices) and
 * `norms` (scale, shift, inner_scale and inner_shift of each feature). These are the steps of `forward` in the opposite
 * order; a quantity that is used twice (r, u) gets the sum of two gradients. */
static void backward(
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
            d->between[c] = d->widened[c]; /* the part of dr_i through y_i = r_i + ... */
            d->widened[c] *= selu_slope(t->widened[c]);
        }
        transposed(w->widen, d->widened, d->gated, WIDTH, HIDDEN); /* dh_i */
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
            d->between[c] += w->inner_scale[i] * EVALUATED * d->inner[c]; /* now all of dr_i */
        }
        transposed(w->out, d->between, d->mixed, WIDTH, WIDTH); /* da_i */
    }
    attention_backward(tokens, dtokens, share, features);
    for (long i = 0; i < features; i++) {
        const token *t = tokens + i;
        token *d = dtokens + i;
        memcpy(d->normed, d->between, sizeof d->normed); /* the part of du_i through r_i = u_i + ... */
        transposed(w->project, d->heads, d->normed, 3 * WIDTH, WIDTH); /* now all of du_i */
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

/* Load a vector, or only the first `samples` numbers of it at the end of a row. */
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

/* Write a tile (TILE, features, WIDTH) to an array (WIDTH, features, samples). One vector would be a write of at most
 * 64 bytes to each row (c, i) of the array, far apart, which is slow; a tile writes TILE times as much at once. */
static void store_tile(float *to, vector (*tile)[WIDTH], long features, long samples, long first) {
    for (long c = 0; c < WIDTH; c++)
        for (long i = 0; i < features; i++)
            for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES)
                store(to + (c * features + i) * samples + at, tile[t * features + i][c], samples - at);
}

/* Bring the memory that store_tile will write into the cache while the numbers are computed. */
static void prefetch(float *to, long rows, long samples, long at) {
    for (long row = 0; row < rows; row++) __builtin_prefetch(to + row * samples + at, 0, 2);
}

/* Add up the samples of a vector. */
static float total(vector x) {
    float sum = 0;
    for (long s = 0; s < SAMPLES; s++) sum += x[s];
    return sum;
}

static void totals(const vector *sums, float *to, long numbers) {
    for (long k = 0; k < numbers; k++) to[k] = total(sums[k]);
}

/* Compute y from x, both (WIDTH, features, samples), and the weights. Only y is written. Arrays on the stack limit the
 * number of features; token_block.py has the limit. */
void token_block(const float *x, const weights *w, float *y, long features, long samples) {
    token tokens[features];
    vector tile[TILE * features][WIDTH], share[HEADS * features * features];
    for (long first = 0; first < samples; first += TILE * SAMPLES) {
        for (long t = 0, at = first; t < TILE && at < samples; t++, at += SAMPLES) {
            for (long i = 0; i < features; i++)
                for (long c = 0; c < WIDTH; c++)
                    tokens[i].x[c] = load(x + (c * features + i) * samples + at, samples - at);
            prefetch(y, WIDTH * features, samples, at);
            forward(w, tokens, share, features);
            for (long i = 0; i < features; i++)
                for (long c = 0; c < WIDTH; c++)
                    tile[t * features + i][c] = tokens[i].between[c] + tokens[i].widened[c];
        }
        store_tile(y, tile, features, samples, first);
    }
}

/* Compute dx and the gradients dw of the weights from x, the weights and dy. dw has nine arrays in the order of
 * `weights`; the last is NULL without a gate. Only dx and dw are written, and not read. */
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
            prefetch(dx, WIDTH * features, samples, at);
            forward(w, tokens, share, features);
            backward(w, tokens, share, dtokens, &sum, norms, features);
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
