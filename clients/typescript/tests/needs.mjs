// What tests need of a server. Without it they are skipped, unless
// HOSTLER_TEST_REQUIRED is set.
export const variables = ["HOSTLER_SERVER", "HOSTLER_TEST_WORKLOAD", "HOSTLER_TEST_PORT", "HOSTLER_TEST_DIR"];

const missing = variables.filter((name) => !process.env[name]);

/** The option skip of a test. */
export const skip = missing.length > 0 && !process.env.HOSTLER_TEST_REQUIRED && `${missing.join(", ")} not set`;

/** The value of an environment variable. */
export function variable(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set`);
  }
  return value;
}

/** Start a web server in a claim's container, and wait until it listens. */
export async function serveHTTP(claim, port, text) {
  const program = `require("http").createServer((q, s) => { let n = 0; q.on("data", (d) => n += d.length).on("end", () => s.end(${JSON.stringify(text)} + n)) })
    .listen(${port}, "127.0.0.1", () => console.log("listening"))`;
  const server = await claim.start([process.execPath, "-e", program]);
  const { data } = await server.read();
  if (Buffer.from(data).toString() !== "listening\n") {
    throw new Error(`the web server does not listen: ${Buffer.from(data)}`);
  }
  return server;
}
