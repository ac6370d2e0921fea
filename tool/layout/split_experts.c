/* --split-experts: each expert of a stacked tensor becomes tensors of its own. */
#include <inttypes.h>
#include <string.h>

#include "layout/matrix_leaves.h"

enum { GATE, UP, DOWN };
/* A header of SafeTensors files has at most 100 MB, which are about as many tensors. */
enum { MOST_EXPERTS = 32768, MOST_TENSORS = 1 << 20 };
static const char rule[] = "split experts";

/* A stacked tensor: of gate and up together, or of down. */
typedef struct stacked_tensor {
    const tenmap_tensor *tensor;
    size_t index;
    size_t prefix; /* bytes of the name before the module that has the experts */
    bool down;
    const matrix_leaf *leaf;
    bool transposed;
} stacked_tensor;

/* Whether "MODULE.experts.PROJECTION" is in the name, at its begin or after a dot. */
static bool find_stack(const tenmap_tensor *t, const char *module, const char *projection,
                       size_t *prefix, size_t *end) {
    text wanted = {0};
    bool found = false;
    text_addf(&wanted, "%s.experts.%s", module, projection);
    for (size_t at = 0; at + wanted.len <= t->name_len && !found; at++) {
        found = (!at || t->name[at - 1] == '.') && !memcmp(t->name + at, wanted.bytes, wanted.len);
        *prefix = at;
    }
    *end = *prefix + wanted.len;
    text_free(&wanted);
    return found;
}

static bool parse_stacked(const layout *l, const tenmap_tensor *t, stacked_tensor *out) {
    const expert_layout *as = l->facts.experts_as;
    size_t end;
    out->tensor = t;
    out->down = find_stack(t, as->stacked_module, "down_proj", &out->prefix, &end);
    if (!out->down && !find_stack(t, as->stacked_module, "gate_up_proj", &out->prefix, &end))
        return false;
    out->leaf = find_leaf(t->name + end, t->name_len - end, true);
    out->transposed = out->leaf && experts_are_transposed(as) && leaf_transposes(out->leaf);
    return true;
}

/* The weight of gate and up, or of down, of the same layer. */
static const tenmap_tensor *weight_of(const layout *l, const stacked_tensor *s, bool down) {
    text name = {0};
    text_add(&name, s->tensor->name, s->prefix);
    text_addf(&name, "%s.experts.%s", l->facts.experts_as->stacked_module,
              down ? "down_proj" : "gate_up_proj");
    const tenmap_tensor *found = tenmap_find_n(l->model, name.bytes, name.len);
    text_free(&name);
    return found;
}

/* The weights must fit together, since their axes are not named: hidden size and width. */
static int check_weights(const layout *l, const stacked_tensor *s) {
    const tenmap_tensor *up = weight_of(l, s, false), *down = weight_of(l, s, true);
    bool turned = experts_are_transposed(l->facts.experts_as);
    if (s->leaf->kind == LEAF_CODES || s->leaf->kind == LEAF_VECTOR)
        return EXIT_FINE;
    if (!up || !down)
        return fail(EXIT_FAILED, "beside %s there is no stacked weight of %s",
                    shown_name(s->tensor->name, s->tensor->name_len),
                    up ? "down_proj" : "gate_up_proj");
    bool fit = up->rank == 3 && down->rank == 3 && up->shape[0] == down->shape[0];
    fit = fit && up->shape[turned ? 2 : 1] == 2 * down->shape[turned ? 1 : 2] &&
          up->shape[turned ? 1 : 2] == down->shape[turned ? 2 : 1];
    if (fit)
        return EXIT_FINE;
    return fail(EXIT_FAILED, "%s is %s and %s is %s, but %s has [experts, %s] and [experts, %s]",
                shown_name(up->name, up->name_len), shown_shape(up),
                shown_name(down->name, down->name_len), shown_shape(down), l->facts.type,
                turned ? "hidden, 2*width" : "2*width, hidden",
                turned ? "width, hidden" : "hidden, width");
}

/* The axis of the stacked tensor that gate and up share. */
static uint32_t joined_axis(const stacked_tensor *s) {
    return s->transposed ? 2 : 1;
}

/* 1 if the rows of gate and up take turns, else 0. */
static uint32_t take_turns(const layout *l, const stacked_tensor *s) {
    return !s->down && l->facts.experts_as->axes == EXPERT_INTERLEAVED;
}

static int check_stacked(const layout *l, const stacked_tensor *s) {
    const tenmap_tensor *t = s->tensor;
    uint32_t rank = s->transposed ? 3 : s->down ? 1 : 2;
    if (t->rank < rank || (s->transposed && t->rank > 3))
        return fail(EXIT_FAILED, "%s has the shape %s, which is not that of stacked experts",
                    shown_name(t->name, t->name_len), shown_shape(t));
    if (!t->shape[0])
        return fail(EXIT_FAILED, "%s has the shape %s, which is that of no experts",
                    shown_name(t->name, t->name_len), shown_shape(t));
    if (t->shape[0] > MOST_EXPERTS)
        return fail(EXIT_FAILED, "%s: a layer can have at most %d experts",
                    shown_name(t->name, t->name_len), (int)MOST_EXPERTS);
    if (l->facts.experts && t->shape[0] != l->facts.experts)
        return fail(EXIT_FAILED,
                    "%s has %" PRIu64 " experts, but config.json says that a layer has %" PRIu64,
                    shown_name(t->name, t->name_len), t->shape[0], l->facts.experts);
    if (!s->down && t->shape[joined_axis(s)] % 2)
        return fail(EXIT_FAILED, "%s has the shape %s: gate and up cannot be halves of it",
                    shown_name(t->name, t->name_len), shown_shape(t));
    return check_weights(l, s);
}

/* Scales must follow the rows of gate and of up. Compares one expert's matrices. */
static int check_scales(const layout *l, const stacked_tensor *s) {
    const tenmap_tensor *up = weight_of(l, s, false);
    if (s->down || (s->leaf->kind != LEAF_BLOCK_SCALES && s->leaf->kind != LEAF_ROW_SCALES))
        return EXIT_FINE;
    if (s->leaf->kind == LEAF_BLOCK_SCALES && take_turns(l, s))
        return refuse_turns(s->tensor);
    uint32_t axis = experts_are_transposed(l->facts.experts_as) ? 2 : 1;
    tenmap_tensor one = *s->tensor, weight = *up;
    uint64_t rows, of_weight = up->shape[axis], of_leaf = s->tensor->shape[joined_axis(s)];
    one.shape = &of_leaf;
    weight.shape = &of_weight;
    one.rank = weight.rank = 1;
    return leaf_rows(l, s->leaf, &one, &weight, of_weight / 2, &rows);
}

/*
 * The block of one expert, and for gate or up that half of the rows. Where gate and up take turns,
 * the axis that they share is taken as two, of which they are the indexes of the second.
 */
static tenmap_term *block_of(layout *l, const stacked_tensor *s, uint64_t expert, int part) {
    const tenmap_tensor *t = s->tensor;
    uint32_t axis = joined_axis(s), turns = take_turns(l, s), rank = t->rank + turns;
    uint64_t *shape = layout_own(l, rank, sizeof *shape), *end = layout_own(l, rank, sizeof *end);
    uint64_t *begin = layout_own(l, rank, sizeof *begin);
    tenmap_term *term = layout_own(l, 1, sizeof *term);
    for (uint32_t i = 0; i < rank; i++)
        shape[i] = t->shape[turns && i > axis ? i - 1 : i];
    if (turns) {
        shape[axis] /= 2;
        shape[axis + 1] = 2;
    }
    memcpy(end, shape, rank * sizeof *end);
    begin[0] = expert;
    end[0] = expert + 1;
    if (!s->down) {
        uint32_t cut = axis + turns;
        begin[cut] = part == UP ? shape[cut] / 2 : 0;
        end[cut] = begin[cut] + shape[cut] / 2;
    }
    *term = (tenmap_term){.tensor = t, .shape = shape, .begin = begin, .end = end, .rank = rank};
    return term;
}

/*
 * Where the stacked tensor is transposed, an inner tensor picks the elements of an expert, and the
 * outer one transposes it in tiles.
 */
static void add_one(layout *l, const stacked_tensor *s, uint64_t expert, int part) {
    const tenmap_tensor *t = s->tensor;
    const expert_layout *as = l->facts.experts_as;
    uint64_t *shape = layout_own_dims(l, t->shape + 1, t->rank - 1);
    tenmap_derived how = {.op = TENMAP_DERIVE_RENAME, .n = 1}, outer;
    text name = {0};
    text_add(&name, t->name, s->prefix);
    text_addf(&name, "%s.experts.%" PRIu64 ".%s%s", as->split_module, expert, as->parts[part],
              s->leaf->of_module);
    outer = how;
    outer.name = how.name = layout_own_text(l, &name);
    if (!s->down)
        shape[joined_axis(s) - 1] /= 2;
    how.terms = block_of(l, s, expert, part);
    how.shape = shape;
    how.rank = t->rank - 1;
    if (s->transposed) {
        layout_add_inner(l, &how);
        layout_add_nested(l, rule, &outer, true, &s->index, 1);
    } else {
        layout_add(l, rule, &how, &s->index, 1);
    }
    text_free(&name);
}

static int split_one(layout *l, const stacked_tensor *s) {
    if (!s->leaf)
        return refuse_leaf(s->tensor, "stacked experts");
    int status = check_stacked(l, s);
    if (!status)
        status = check_scales(l, s);
    if (!status && l->tensor_count + 2 * s->tensor->shape[0] > MOST_TENSORS)
        status = fail(EXIT_FAILED, "%s: the output would have more than %d tensors of experts",
                      shown_name(s->tensor->name, s->tensor->name_len), (int)MOST_TENSORS);
    if (!status)
        status = layout_take(l, s->index, rule);
    for (uint64_t e = 0; !status && e < s->tensor->shape[0]; e++)
        for (int part = s->down ? DOWN : GATE; part <= (s->down ? DOWN : UP); part++)
            add_one(l, s, e, part);
    return status;
}

int layout_split_experts(layout *l) {
    const expert_layout *as = l->facts.experts_as;
    bool any = false;
    for (size_t i = 0; i < l->count; i++) {
        stacked_tensor s = {.index = i};
        if (!parse_stacked(l, tenmap_at(l->model, i), &s))
            continue;
        any = true;
        int status = l->chosen[i] ? split_one(l, &s) : EXIT_FINE;
        if (status)
            return status;
    }
    if (!any)
        return fail(EXIT_FAILED,
                    "--split-experts: there is no tensor '%s.experts.gate_up_proj', as %s has it",
                    as->stacked_module, l->facts.type);
    return layout_rename_module(l, rule, as->stacked_module, as->split_module);
}
