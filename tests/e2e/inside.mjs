// A plugin of the real runtime that does what it is told over a loopback connection: one line of
// JSON with the body of an async function to run, one line with what it returned.
import net from 'node:net'
import readline from 'node:readline'

export const name = 'inside'

export function apply(ctx) {
  const run = async (body) => {
    const made = new Function('ctx', `return (async () => { ${body} })()`)
    return await made(ctx)
  }
  const socket = net.connect(Number(process.env.INSIDE_PORT), '127.0.0.1')
  readline.createInterface({ input: socket }).on('line', async (line) => {
    const { body } = JSON.parse(line)
    let answer
    try {
      answer = { value: (await run(body)) ?? null }
    } catch (error) {
      answer = { error: String(error?.stack ?? error) }
    }
    socket.write(JSON.stringify(answer) + '\n')
  })
  socket.on('error', () => {})
  ctx.effect(() => () => socket.destroy(), 'inside')
}
