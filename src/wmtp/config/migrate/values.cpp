// Values of keys that there still are: how they are spelled, and those that are none any more.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "wmtp/config/migrate/rewrites.h"

namespace wmtp::config {
namespace {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Node with_text(const Node& value, std::string text) {
  return plain_scalar(std::move(text), value.place);
}

bool is_any_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::ranges::find(words, word) != words.end();
}

std::string respell_boolean(Node& value) {
  const std::string word = lower_case(value.text);
  const bool yes = is_any_of(word, {"yes", "on", "y", "true"});
  if (!yes && !is_any_of(word, {"no", "off", "n", "false"})) return "";
  value = with_text(value, yes ? "true" : "false");
  return "booleans are true and false";
}

std::string respell_choice(const Row& row, Node& value) {
  std::string word = value.text;
  for (const auto& [accepted, main] : row.spellings)
    if (lower_case(word) == accepted) word = main;
  for (const std::string& choice : row.type.choices)
    if (lower_case(word) == lower_case(choice)) word = choice;
  if (word == value.text) return "";
  value = with_text(value, word);
  return "the main spelling";
}

// 1_000_000, which YAML 1.1 takes for a number.
std::string respell_number(Node& value) {
  std::string digits = value.text;
  std::erase(digits, '_');
  if (digits == value.text) return "";
  try {
    const Node number = with_text(value, digits);
    if (!number.is(Node::Kind::integer) && !number.is(Node::Kind::real)) return "";
    value = number;
    return "numbers have no underscores";
  } catch (const std::string&) {
    return "";  // .inf and the like: the loader says what it thinks of them
  }
}

void rewrite_total_limit(Rewriter& rewriter, const OldEntry& entry) {
  const bool one = entry.value.is(Node::Kind::integer) && entry.value.integer == 1;
  rewriter.put(
      entry, entry.key, one ? with_text(entry.value, "2") : entry.value,
      one ? "the newest good checkpoint is never the only one while the next is written" : "");
}

void rewrite_device(Rewriter& rewriter, const OldEntry& entry) {
  const std::string& device = entry.value.text;
  if (device == "mps")
    rewriter.put(entry, entry.key, with_text(entry.value, "cpu"), "mps is not available");
  else if (device.starts_with("cuda:"))
    rewriter.put(entry, entry.key, with_text(entry.value, "cuda"), "each rank takes its own GPU");
  else
    rewriter.put(entry, entry.key, entry.value, "");
}

void rewrite_tracking_uri(Rewriter& rewriter, const OldEntry& entry) {
  const std::string& uri = entry.value.text;
  const bool taken = uri.empty() || uri.starts_with("http") || uri.find("${") != uri.npos;
  if (taken)
    rewriter.put(entry, entry.key, entry.value, "");
  else
    rewriter.drop(entry, "MLflow is reached by http(s) only; metrics.jsonl needs no server");
}

void rewrite_log_level(Rewriter& rewriter, const OldEntry& entry) {
  const std::string level = lower_case(entry.value.text);
  const char* now = level == "warning"                        ? "warn"
                    : is_any_of(level, {"critical", "fatal"}) ? "error"
                                                              : nullptr;
  rewriter.put(entry, entry.key, now ? with_text(entry.value, now) : entry.value,
               now ? "levels are debug, info, warn and error" : "");
}

void rewrite_log_format(Rewriter& rewriter, const OldEntry& entry) {
  if (entry.value.text.find('%') != std::string::npos)
    rewriter.drop(entry, "lines are text or json, in a form of their own");
  else
    rewriter.put(entry, entry.key, entry.value, "");
}

void rewrite_clipping(Rewriter& rewriter, const OldEntry& entry) {
  const bool number = entry.value.is(Node::Kind::integer) || entry.value.is(Node::Kind::real);
  const bool off = number && entry.value.real <= 0;
  rewriter.put(entry, entry.key, off ? with_text(entry.value, "null") : entry.value,
               off ? "null: no clipping" : "");
}

void rewrite_name(Rewriter& rewriter, const OldEntry& entry) {
  const std::string name = run_name(entry.value.text);
  const bool same = name == entry.value.text || entry.value.text.find("${") != std::string::npos;
  rewriter.put(entry, entry.key, same ? entry.value : text_node(name, entry.value.place),
               same ? "" : "a name is A-Z a-z 0-9 . _ -, at most 128 of them");
}

}  // namespace

std::string respell(const Row& row, Node& value) {
  const bool scalar = !value.is(Node::Kind::list) && !value.is(Node::Kind::map) &&
                      !value.is(Node::Kind::null) && value.text.find("${") == std::string::npos;
  if (!scalar) return "";
  if (row.type.text && !value.is(Node::Kind::text)) {
    value = text_node(value.text, value.place);
    return "a text that looks like a number is quoted";
  }
  if (!value.is(Node::Kind::text) && row.type.choices.empty()) return "";
  if (row.type.name.starts_with("bool")) return respell_boolean(value);
  if (!row.type.choices.empty()) return respell_choice(row, value);
  if (row.type.name.starts_with("int") || row.type.name.starts_with("float"))
    return respell_number(value);
  return "";
}

std::string run_name(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || (!std::isalnum(byte) && c != '.' && c != '_' && c != '-')) c = '-';
  }
  return text.substr(0, 128);
}

Rewrite value_rewrite_of(std::string_view key) {
  if (key == "checkpoint.save_total_limit") return rewrite_total_limit;
  if (key == "runtime.device") return rewrite_device;
  if (key == "mlflow.tracking_uri") return rewrite_tracking_uri;
  if (key == "logging.level") return rewrite_log_level;
  if (key == "logging.format") return rewrite_log_format;
  if (key == "experiment.name") return rewrite_name;
  if (key == "training.max_grad_norm") return rewrite_clipping;
  if (key == "models.policy.params") return rewrite_params;
  return nullptr;
}

}  // namespace wmtp::config
