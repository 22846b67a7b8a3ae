// Lets a script find the packages of `.peers/node_modules` by name, wherever the script itself lies.
import { register } from 'node:module';

const hook = `
const peers = ${JSON.stringify(new URL('../../.peers/any.mjs', import.meta.url).href)};
export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || /^[./]/.test(specifier)) throw error;
    return next(specifier, { ...context, parentURL: peers });
  }
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
