// Asks the node, and nobody else. Knows the API's paths, shapes and errors. Doesn't know what is shown of its answers.

// An answer that is larger isn't read to its end.
const BYTES_MAX = 96 << 20;
// Addresses that are longer go in the body.
const ADDRESS_MAX = 3000;

export class ApiError extends Error {
  // `place`: line and column in the expression, both from 1, the column in bytes; or null.
  constructor(words, place = null) {
    super(words);
    this.place = place;
  }
}

// The answer's JSON; `parameters`: pairs of names and values.
export async function ask(path, parameters, signal) {
  const form = new URLSearchParams(parameters), isShort = String(form).length <= ADDRESS_MAX;
  const response = isShort
    ? await fetch(`${path}?${form}`, { signal, cache: 'no-store' })
    : await fetch(path, { method: 'POST', body: form, signal, cache: 'no-store' });
  const text = await textOf(response);
  let answer;
  try {
    answer = JSON.parse(text);
  } catch (error) {
    // The gate and proxies answer in plain text.
    throw new ApiError(text.trim().slice(0, 1000) || `the node answers with status ${response.status}`);
  }
  if (answer.status !== 'success') throw errorOf(String(answer.error ?? `status ${response.status}`));
  return answer;
}

async function textOf(response) {
  const decoder = new TextDecoder(), reader = response.body.getReader();
  let text = '', read = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    read += value.length;
    if (read > BYTES_MAX) {
      await reader.cancel();
      throw new ApiError(`the answer has more than ${BYTES_MAX >> 20} MiB: ask for fewer series, or with a longer step`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

export function errorOf(words) {
  const found = /^invalid parameter "query": (?:(\d+):(\d+)|unknown position): parse error: ([^]*)$/.exec(words);
  if (!found) return new ApiError(words);
  const [, line, column, said] = found;
  return new ApiError(said, line ? { line: Number(line), column: Number(column) } : null);
}

const seconds = (ms) => (ms / 1000).toFixed(3);

export const askRange = (query, { startMs, endMs, stepMs, limit }, signal) =>
  ask('api/v1/query_range', [['query', query], ['start', seconds(startMs)], ['end', seconds(endMs)], ['step', seconds(stepMs)], ['limit', limit]], signal);

export const askInstant = (query, { atMs, limit }, signal) =>
  ask('api/v1/query', [['query', query], ['time', seconds(atMs)], ['limit', limit]], signal);

export const askExemplars = (query, { startMs, endMs }, signal) =>
  ask('api/v1/query_exemplars', [['query', query], ['start', seconds(startMs)], ['end', seconds(endMs)]], signal);

export const askParse = (query, signal) => ask('api/v1/parse_query', [['query', query]], signal);
