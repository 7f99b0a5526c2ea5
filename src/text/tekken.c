/* tekken.json of Mistral: byte strings with ranks, the pattern that cuts text, and special tokens, which have the first
 * ids. The file has more ranks than the model: the first ones count. */
#include "format/base64.h"
#include "text/json_items.h"
#include "text/kinds.h"
#include "text/ranked.h"

/* Of files that do not list theirs. */
static const hr_special_run usual[] = {{"<unk>", 0, 0},
                                       {"<s>", 0, 0},
                                       {"</s>", 0, 0},
                                       {"[INST]", 0, 0},
                                       {"[/INST]", 0, 0},
                                       {"[AVAILABLE_TOOLS]", 0, 0},
                                       {"[/AVAILABLE_TOOLS]", 0, 0},
                                       {"[TOOL_RESULTS]", 0, 0},
                                       {"[/TOOL_RESULTS]", 0, 0},
                                       {"[TOOL_CALLS]", 0, 0},
                                       {"[IMG]", 0, 0},
                                       {"<pad>", 0, 0},
                                       {"[IMG_BREAK]", 0, 0},
                                       {"[IMG_END]", 0, 0},
                                       {"[PREFIX]", 0, 0},
                                       {"[MIDDLE]", 0, 0},
                                       {"[SUFFIX]", 0, 0},
                                       {"[SYSTEM_PROMPT]", 0, 0},
                                       {"[/SYSTEM_PROMPT]", 0, 0},
                                       {"[TOOL_CONTENT]", 0, 0}};

static hr_status specials_read(hr_tokenizer *t, const hr_item *root, int64_t count, hr_error *err) {
  hr_item list = hr__item_get(root, "special_tokens");
  for (size_t i = 0; i < hr__item_count(&list); i++) {
    hr_item one = hr__item_at(&list, i), rank = hr__item_get(&one, "rank"), text = hr__item_get(&one, "token_str");
    int64_t id = 0;
    const char *name = NULL;
    size_t bytes = 0;
    HR_TRY(hr__item_int(&rank, false, 0, count - 1, &id, err));
    HR_TRY(hr__item_text(&text, false, &name, &bytes, err));
    HR_TRY(hr__item_placed(&one, hr__build_piece(t, id, name, bytes, err), err));
  }
  int32_t id = 0;
  if (!list.value && count >= (int64_t)(sizeof usual / sizeof *usual))
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++, id++)
      HR_TRY(hr__build_piece(t, id, usual[i].name, strlen(usual[i].name), err));
  for (id = 0; id < count; id++) { /* fillers for the rest */
    const char *name = t->pieces[id].text ? NULL : hr__arena_format(&t->arena, "<SPECIAL_%d>", (int)id);
    if (name) HR_TRY(hr__build_piece(t, id, name, strlen(name), err));
    HR_TRY(hr__build_special(t, id, err));
  }
  return HR_OK;
}

static hr_status vocabulary_read(hr_tokenizer *t, const hr_item *vocab, int64_t first, int64_t count, hr_error *err) {
  HR_TRY(hr__item_list(vocab, err));
  char token[HR_RANKED_BYTES];
  for (size_t i = 0; i < hr__item_count(vocab); i++) {
    hr_item one = hr__item_at(vocab, i), rank = hr__item_get(&one, "rank"), data = hr__item_get(&one, "token_bytes");
    int64_t number = 0;
    const char *text = NULL;
    size_t bytes = 0, length = 0;
    HR_TRY(hr__item_int(&rank, false, 0, HR_MAX_IDS - 1, &number, err));
    if (number >= count) continue;
    HR_TRY(hr__item_text(&data, false, &text, &bytes, err));
    if (bytes > HR_RANKED_BYTES)
      return hr__item_fail(&data, err, NULL, "a token of more than %d bytes", HR_RANKED_BYTES);
    HR_TRY(hr__item_placed(&data, hr__base64_read(text, bytes, token, &length, err), err));
    HR_TRY(hr__item_placed(&one, hr__build_piece(t, first + number, token, length, err), err));
  }
  return HR_OK;
}

static hr_status tekken_read(hr_tokenizer *t, const hr_item *root, hr_error *err) {
  HR_TRY(hr__item_object(root, err));
  hr_item config = hr__item_get(root, "config"), pattern = hr__item_get(&config, "pattern"),
          size = hr__item_get(&config, "default_vocab_size"),
          special = hr__item_get(&config, "default_num_special_tokens"), vocab = hr__item_get(root, "vocab");
  int64_t ids = 0, specials = 0;
  const char *text = NULL;
  size_t bytes = 0;
  HR_TRY(hr__item_int(&special, false, 0, HR_MAX_IDS / 2, &specials, err));
  HR_TRY(hr__item_int(&size, false, specials, HR_MAX_IDS, &ids, err));
  HR_TRY(hr__item_text(&pattern, false, &text, &bytes, err));
  HR_TRY(hr__build_room(t, (size_t)ids, (size_t)ids, err));
  HR_TRY(hr__item_placed(&pattern, hr__build_split(t, text, bytes, HR_DIALECT_RUST, err), err));
  HR_TRY(specials_read(t, root, specials, err)); /* first: a rank may have the same text */
  HR_TRY(vocabulary_read(t, &vocab, specials, ids - specials, err));
  HR_TRY(hr__build_ranked(t, (size_t)specials, err));
  static const char *const names[] = {
      [HR_TOKEN_BEGIN] = "<s>", [HR_TOKEN_END] = "</s>", [HR_TOKEN_UNKNOWN] = "<unk>", [HR_TOKEN_PAD] = "<pad>"};
  for (int role = 0; role < (int)(sizeof names / sizeof *names); role++)
    t->roles[role] = hr__words_find(&t->ids, names[role], strlen(names[role]));
  return t->roles[HR_TOKEN_BEGIN] >= 0 ? hr__ids_add(&t->before, t->roles[HR_TOKEN_BEGIN], err) : HR_OK;
}

hr_status hr__load_tekken(hr_tokenizer *t, const char *path, hr_error *err) {
  return hr__item_load(t, path, tekken_read, err);
}
