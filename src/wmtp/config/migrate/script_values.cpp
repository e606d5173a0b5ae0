#include "wmtp/config/migrate/script_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "wmtp/config/migrate/rewrites.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

// What a word is called here: pairs of {theirs, ours}; ours empty: no counterpart.
struct Word {
  std::string_view theirs, ours;
};

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Without the class in front: torch.bfloat16, ShardingStrategy.FULL_SHARD.
std::string last_word(const std::string& text) {
  return lowered(text.substr(text.rfind('.') + 1));
}

template <std::size_t kCount>
void put_word(Rewriter& rewriter, const OldEntry& entry, const Word (&words)[kCount],
              const std::string& why) {
  const std::string word = last_word(entry.value.text);
  const bool several = entry.value.is(Node::Kind::list);
  for (const Word& one : words)
    if (word == one.theirs && !several)
      return rewriter.put(entry, entry.key, plain_scalar(std::string(one.ours), entry.place), why);
  const Row& row = *schema().find(entry.key);
  Node value = plain_scalar(word, entry.place);
  respell(row, value);
  if (std::ranges::find(row.type.choices, value.text) == row.type.choices.end())
    return rewriter.refuse(entry, fmt::format("{} takes {}, found {}", entry.key, row.type.name,
                                              describe(entry.value)));
  rewriter.put(entry, entry.key, value, row.help);
}

std::string help_of(const OldEntry& entry) {
  return schema().find(entry.key)->help;
}

Node list_of(std::vector<Node> items) {
  Node list;
  list.kind = Node::Kind::list;
  list.items = std::move(items);
  return list;
}

void rewrite_beta(Rewriter& rewriter, const OldEntry& entry, std::size_t i) {
  if (!entry.value.is(Node::Kind::real) && !entry.value.is(Node::Kind::integer))
    return rewriter.refuse(entry,
                           fmt::format("expected a number, found {}", describe(entry.value)));
  const Draft::Entry* there = rewriter.draft().find(entry.key);
  Node betas = there ? there->value : node_of(schema().default_of(*schema().find(entry.key)));
  betas.items[i] = entry.value;
  const std::string text = flow_text(betas);
  if (there) rewriter.draft().erase(entry.key);
  rewriter.replace(entry, entry.key, betas, "the other one is our default where none is given");
  rewriter.record(entry, Change::Action::translated, fmt::format("{}: {}", entry.key, text),
                  help_of(entry));
}

// A variable that the shell would have filled in: $NAME, ${NAME}.
std::string with_variables(const std::string& word) {
  std::string text;
  for (std::size_t i = 0; i < word.size();) {
    if (word[i] != '$') {
      text += word[i++];
      continue;
    }
    const bool braces = i + 1 < word.size() && word[i + 1] == '{';
    std::size_t end = i + (braces ? 2 : 1);
    while (end < word.size() && (std::isalnum(static_cast<unsigned char>(word[end])) ||
                                 word[end] == '_' || (braces && word[end] != '}')))
      ++end;
    const std::size_t start = i + (braces ? 2 : 1);
    text += end > start ? "${env:" + word.substr(start, end - start) + "}" : "$";
    i = end + (braces && end < word.size() ? 1 : 0);
  }
  return text;
}

}  // namespace

Node node_of_words(const std::vector<std::string>& words, Place place) {
  const auto scalar = [&](const std::string& word) {
    try {
      return plain_scalar(with_variables(word), place);
    } catch (const std::string&) {  // inf, nan: the key says what it takes
      return text_node(word, place);
    }
  };
  Node node = words.empty() ? plain_scalar("", place) : scalar(words[0]);
  if (words.size() < 2) return node;
  node = Node();
  node.kind = Node::Kind::list;
  node.place = place;
  for (const std::string& word : words) node.items.push_back(scalar(word));
  return node;
}

void rewrite_word_list(Rewriter& rewriter, const OldEntry& entry) {
  if (entry.value.is(Node::Kind::list))
    return rewriter.put(entry, entry.key, entry.value, help_of(entry));
  std::vector<Node> items;
  const std::string& text = entry.value.text;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    items.push_back(text_node(text.substr(start, comma - start), entry.place));
    start = comma + 1;
  }
  rewriter.put(entry, entry.key, list_of(std::move(items)), help_of(entry));
}

void rewrite_hub_data(Rewriter& rewriter, const OldEntry& entry) {
  rewriter.record(entry, Change::Action::translated, "dataset.train: a file",
                  "files are read, nothing is downloaded: docs/qwen3.md writes a data set to one");
}

void rewrite_workers(Rewriter& rewriter, const OldEntry& entry) {
  if (entry.value.is(Node::Kind::integer) && entry.value.integer == 0)
    rewriter.drop(entry, "a thread at least makes batches");
  else
    rewriter.put(entry, entry.key, entry.value, help_of(entry));
}

void rewrite_seed(Rewriter& rewriter, const OldEntry& entry) {
  rewriter.replace(entry, "data_sampling.seed", entry.value, "was " + entry.path);
  rewriter.replace(entry, "runtime.seed", entry.value, "was " + entry.path);
  const std::string value = flow_text(entry.value);
  rewriter.record(entry, Change::Action::translated,
                  fmt::format("runtime.seed: {}, data_sampling.seed: {}", value, value),
                  "weights and dropout have one, the order of the data another");
}

void rewrite_beta1(Rewriter& rewriter, const OldEntry& entry) {
  rewrite_beta(rewriter, entry, 0);
}

void rewrite_beta2(Rewriter& rewriter, const OldEntry& entry) {
  rewrite_beta(rewriter, entry, 1);
}

void rewrite_optimizer(Rewriter& rewriter, const OldEntry& entry) {
  constexpr Word kWords[] = {{"adamw_torch", "adamw"},
                             {"adamw_torch_fused", "adamw"},
                             {"adamw_hf", "adamw"},
                             {"fused_adamw", "adamw"}};
  put_word(rewriter, entry, kWords, "AdamW is one fused kernel");
}

void rewrite_schedule(Rewriter& rewriter, const OldEntry& entry) {
  constexpr Word kWords[] = {{"constant_with_warmup", "constant"},
                             {"cosine_with_min_lr", "cosine"},
                             {"cosine_with_warmup", "cosine"},
                             {"linear_with_warmup", "linear"},
                             {"none", "constant"},
                             {"reduce_lr_on_plateau", "plateau"}};
  put_word(rewriter, entry, kWords, "warm-up and floor are keys of their own");
}

void rewrite_strategy(Rewriter& rewriter, const OldEntry& entry) {
  constexpr Word kWords[] = {{"fsdp", "FULL_SHARD"},   {"full", "FULL_SHARD"},
                             {"zero3", "FULL_SHARD"},  {"zero2", "SHARD_GRAD_OP"},
                             {"ddp", "NO_SHARD"},      {"none", "NO_SHARD"},
                             {"hsdp", "HYBRID_SHARD"}, {"hybrid", "HYBRID_SHARD"}};
  put_word(rewriter, entry, kWords, help_of(entry));
}

void rewrite_precision(Rewriter& rewriter, const OldEntry& entry) {
  OldEntry given = entry;  // the rule's key is one of the old form, which takes the same words
  if (given.value.is(Node::Kind::null)) given.value = plain_scalar("true", entry.place);
  translation_of(entry.key)(rewriter, given);
}

void rewrite_dtype(Rewriter& rewriter, const OldEntry& entry) {
  constexpr Word kWords[] = {{"half", "fp16"}, {"float", "fp32"}};
  put_word(rewriter, entry, kWords, help_of(entry));
}

void rewrite_resume(Rewriter& rewriter, const OldEntry& entry) {
  Node value = entry.value.is(Node::Kind::null) ? plain_scalar("true", entry.place) : entry.value;
  respell(*schema().find("training.use_lora"), value);
  if (value.is(Node::Kind::boolean))
    return rewriter.put(entry, entry.key, plain_scalar(value.boolean ? "auto" : "never", {}),
                        help_of(entry));
  if (value.text == "auto" || value.text == "latest")
    return rewriter.put(entry, entry.key, plain_scalar("auto", {}), help_of(entry));
  rewriter.refuse(entry,
                  "a checkpoint of a script is no checkpoint of ours; models.policy.path takes its "
                  "weights");
}

void rewrite_recompute(Rewriter& rewriter, const OldEntry& entry) {
  constexpr Word kWords[] = {{"", "block"}, {"full", "block"}, {"selective", "light"}};
  put_word(rewriter, entry, kWords, help_of(entry));
}

void rewrite_explicit_prefetch(Rewriter& rewriter, const OldEntry& entry) {
  constexpr const char *kForward = "distributed.fsdp.prefetch.forward",
                       *kBackward = "distributed.fsdp.prefetch.backward";
  Node value = entry.value.is(Node::Kind::null) ? plain_scalar("true", entry.place) : entry.value;
  respell(*schema().find("training.use_lora"), value);
  if (!value.is(Node::Kind::boolean))
    return rewriter.refuse(entry, fmt::format("expected a switch, found {}", describe(value)));
  if (!value.boolean) return rewriter.drop(entry, "one unit ahead is the default");
  const Node two = plain_scalar("2", entry.place);
  rewriter.replace(entry, kForward, two, "was " + entry.path);
  rewriter.replace(entry, kBackward, two, "was " + entry.path);
  rewriter.record(entry, Change::Action::translated,
                  fmt::format("{}: 2, {}: 2", kForward, kBackward),
                  "two units ahead, as the guide's set_modules_to_forward_prefetch has it");
}

void take_prefetch(Rewriter& rewriter, const OldEntry& entry) {
  const std::string word = last_word(entry.value.text);
  if (word == "backward_pre" || word == "backward_post")
    rewriter.put(entry, entry.key, plain_scalar("1", entry.place), help_of(entry));
  else if (entry.value.is(Node::Kind::integer))
    rewriter.put(entry, entry.key, entry.value, help_of(entry));
  else
    rewriter.refuse(entry,
                    fmt::format("expected a number of units, found {}", describe(entry.value)));
}

}  // namespace wmtp::config
