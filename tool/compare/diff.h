/*
 * What `diff` compares: diff_choices.c recognizes what both models are, diff_metadata.c compares
 * their metadata, diff_json.c and diff_tsv.c print the result for programs, and commands/diff.c
 * does the rest.
 */
#ifndef TOOL_DIFF_H
#define TOOL_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "command.h"
#include "compare/match_tensors.h"
#include "view/print.h"

typedef struct diff_settings {
    texts except, rename;
    double atol, rtol;
    bool headers, any_dtype, any_metadata, map_names, as_stored, json, tsv, dequantize;
    uint64_t threads, top;
} diff_settings;

/* Options that nobody gave and that follow from what the models are, and notes on them. */
enum { MAX_DIFF_CHOICES = 2, MAX_DIFF_NOTES = 4 };
typedef struct diff_choices {
    const char *what_a, *what_b;           /* "GGUF", "quantized", "LoRA"; NULL: nothing special */
    const char *options[MAX_DIFF_CHOICES]; /* "--map-names" */
    const char *reasons[MAX_DIFF_CHOICES];
    size_t option_count;
    text notes[MAX_DIFF_NOTES]; /* sentences */
    size_t note_count;
} diff_choices;

/* What two models have in common, and what they do not. */
typedef struct models {
    tenmap_model *a, *b;
    matches found;         /* the selected tensors; the pairs are moved to the lists below */
    pair *dtypes, *shapes; /* pairs that differ in these */
    size_t dtype_count, shape_count;
    pair *pairs; /* same shape: pairs whose values can be compared */
    size_t pair_count;
    size_t metadata; /* number of keys that differ */
    size_t equal, different;
    size_t permuted; /* pairs whose rows are permuted on one side */
    diff_choices chosen;
} models;

/*
 * Chooses --map-names if one side is GGUF, and --dequantize if one side is quantized, unless the
 * options say otherwise. Replaces the quantized model by one with dequantized weights. Writes what
 * it chose into `set` and m->chosen.
 */
void choose_options(models *m, diff_settings *set);
/*
 * Adds a note on what to do if the models have no tensor in common and no other note says why.
 * Call it after matching.
 */
void note_unmatched(models *m, const diff_settings *set);
void choices_free(diff_choices *chosen);
/*
 * Whether such differences are ignored. Across formats neither dtypes nor metadata are expected to
 * agree.
 */
bool any_dtype(const diff_settings *set);
bool any_metadata(const diff_settings *set);

/* A key that differs: a side that has it, then both sides, NULL for a side that lacks it. */
typedef void each_key(const tenmap_metadata *any, const tenmap_metadata *a,
                      const tenmap_metadata *b);
/* Calls `each`, unless it is NULL, with each key that differs. Returns how many there are. */
size_t walk_metadata(const models *m, each_key *each);
/* Only the first few elements of an array are shown, so the difference may lie beyond them. */
bool are_arrays(const tenmap_metadata *a, const tenmap_metadata *b);

/* diff_json.c, diff_tsv.c: `same` says whether the models are equal. */
void print_diff_json(const models *m, const diff_settings *set, bool same);
void print_diff_tsv(const models *m, const diff_settings *set, bool same);

#endif
