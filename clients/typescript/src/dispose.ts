// `await using` needs this symbol also where a compiler has replaced it for an older
// browser. It has to exist before a class is defined that uses it.
if (!Symbol.asyncDispose) {
  Object.defineProperty(Symbol, "asyncDispose", { value: Symbol.for("Symbol.asyncDispose") });
}
export {};
